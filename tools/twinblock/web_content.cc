#include "twinblock/web_content.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <sstream>

#include "telemetry/metrics_text.h"
#include "twinblock/web_files.h"

namespace twinblock {
namespace {

constexpr const char* kText = "text/plain; charset=utf-8";
constexpr const char* kJson = "application/json";

// "r0.example:7780" as "r0.example", "[::1]:7780" as "[::1]"; in small letters.
std::string name_of(const std::string& host) {
  std::string name = host;
  const size_t bracket = name.find(']');
  const size_t colon = name.find(':', bracket == std::string::npos ? 0 : bracket);
  if (colon != std::string::npos) name.resize(colon);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return name;
}

// An address can't be made to lead elsewhere, as a name can.
bool is_address(const std::string& name) {
  if (name.size() > 2 && name.front() == '[' && name.back() == ']') return true;
  return !name.empty() && name.find_first_not_of("0123456789.") == std::string::npos &&
         std::count(name.begin(), name.end(), '.') == 3;
}

bool knows(const std::string& host, const std::vector<std::string>& names) {
  const std::string name = name_of(host);
  return name == "localhost" || is_address(name) ||
         std::any_of(names.begin(), names.end(), [&](const std::string& each) { return name_of(each) == name; });
}

}  // namespace

WebAnswer web_answer(const WebRequest& request, const WebFigures& figures, const std::vector<std::string>& names) {
  if (request.method != "GET" && request.method != "HEAD")
    return {405, kText, "This page is read only: GET and HEAD.\n"};
  if (!knows(request.host, names))
    return {403, kText,
            "The name by which you came is not known here. Come by the address, or start twinblock web with --host "
            "NAME.\n"};
  if (request.path == "/api/volumes") return {200, kJson, figures.volumes};
  if (request.path == "/api/history") return {200, kJson, figures.history};
  if (request.path == "/metrics") return {200, "text/plain; version=0.0.4; charset=utf-8", figures.metrics};
  for (const WebFile& file : web_files())
    if (request.path == file.path) return {200, file.type, std::string(file.content)};
  return {404, kText, "There is /, /api/volumes, /api/history and /metrics.\n"};
}

std::string joined_metrics(const std::vector<std::string>& texts) {
  struct Family {
    std::string head, samples;
  };
  std::vector<std::string> order;
  std::map<std::string, Family> families;
  for (const std::string& text : texts) {
    std::istringstream lines(text);
    std::string line, name;
    while (std::getline(lines, line)) {
      if (line.empty()) continue;
      const bool is_help = line.rfind("# HELP ", 0) == 0;
      if (is_help || line.rfind("# TYPE ", 0) == 0) {
        name = line.substr(7, line.find(' ', 7) - 7);
        const auto [found, made] = families.try_emplace(name);
        if (made) order.push_back(name);
        // The first node's words stand for all.
        if (found->second.head.find(line.substr(0, 7)) == std::string::npos) found->second.head += line + "\n";
      } else if (line.front() != '#') {
        families[name].samples += line + "\n";
      }
    }
  }
  std::string all;
  for (const std::string& name : order) all += families[name].head + families[name].samples;
  return all;
}

std::string answers_metric(const std::map<std::string, bool>& answers) {
  if (answers.empty()) return {};
  MetricsText text({});
  text.family("twinblock_node_answers", "gauge", "Whether this host's node of the volume answers.");
  for (const auto& [volume, does] : answers) text.sample(uint64_t{does}, {{"volume", volume}});
  return text.take();
}

}  // namespace twinblock
