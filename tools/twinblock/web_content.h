// What `twinblock web` answers: the page's files, what the nodes said last, and why a request is refused. Pure.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace twinblock {

// What was gathered last, as it is sent.
struct WebFigures {
  std::string volumes = "{\"volumes\": []}";  // JSON
  std::string history = "{\"volumes\": {}}";  // JSON
  std::string metrics;                         // text format of Prometheus
};

struct WebRequest {
  std::string method;
  std::string path;  // without what follows a '?'
  std::string host;  // the header, as it came; empty: none
};

struct WebAnswer {
  unsigned status = 200;
  std::string type;
  std::string body;
};

// `names`: what else than an address or localhost a browser may call this host by. A foreign name is refused: a page
// of somebody else's, whose name leads here, would read what only users of this host may.
WebAnswer web_answer(const WebRequest& request, const WebFigures& figures, const std::vector<std::string>& names);

// Texts of several nodes in Prometheus' format as one: each family once, with all its samples.
std::string joined_metrics(const std::vector<std::string>& texts);

// The same format: by volume, whether its node answers. The nodes' own texts can't tell: one that is gone says nothing.
std::string answers_metric(const std::map<std::string, bool>& answers);

}  // namespace twinblock
