#include "io/posix/etcd_words.h"

#include "base/limits.h"
#include "base/units.h"

namespace twinblock::etcd {
namespace {

// As an administrator asks the same etcd.
std::string etcdctl(const EtcdAccess& access, const std::string& order) {
  std::string line = "etcdctl --endpoints=";
  for (const std::string& endpoint : access.endpoints)
    line += (&endpoint == &access.endpoints.front() ? "" : ",") + endpoint;
  if (!access.ca_file.empty()) line += " --cacert=" + access.ca_file;
  if (!access.certificate_file.empty())
    line += " --cert=" + access.certificate_file + " --key=" + access.certificate_key_file;
  if (!access.user.empty()) line += " --user=" + access.user;
  return line + " " + order;
}

EtcdAccess as_root(EtcdAccess access) {
  access.user = "root";
  return access;
}

std::string in_brackets(const std::string& detail) {
  return detail.empty() ? "" : " (" + quotable(detail) + ")";
}

// What an etcd with certificates makes of plain HTTP depends on its version; and the end of a connection may
// overtake its word that it wants a certificate.
std::string if_it_has_certificates(const EtcdAccess& access) {
  if (!access.endpoints.front().starts_with("https:")) return "; if it has certificates, write https://";
  if (!access.certificate_file.empty()) return "";
  return "; if it asks clients for certificates (--client-cert-auth), [witness] needs certificate_file and "
         "certificate_key_file";
}

}  // namespace

std::string named(const std::string& endpoint) { return "etcd at " + endpoint; }

Error words_of(const EtcdAccess& access, const HttpOutcome& failed) {
  const std::string detail = in_brackets(failed.detail);
  switch (failed.failure) {
    case HttpFailure::kNone:
      break;
    case HttpFailure::kNoSuchHost:
      return {"has a host name that can't be looked up" + detail,
              "see `getent hosts NAME`, or write its address into endpoints of [witness]"};
    case HttpFailure::kRefused:
      return {"refused the connection",
              "start it there (`systemctl start etcd`), or correct endpoints of [witness]"};
    case HttpFailure::kUnreachable:
      return {"could not be connected to" + detail, "see to its host, and to the network between"};
    case HttpFailure::kTimeout:
      // The same each time, however little was left: it is told again only when it is something else.
      return {"did not answer within " + std::string(access.endpoints.size() > 1 ? "its share of " : "") +
                  format_duration(access.timeout_ns),
              "see whether its host is up and most of its members are: " +
                  etcdctl(access, "endpoint health --cluster")};
    case HttpFailure::kUntrusted:
      return {"has a certificate that is not trusted" + detail,
              "ca_file of [witness] has to hold who signed it, and it has to be for that name or address, and "
              "of this time"};
    case HttpFailure::kTls:
      return {"does not agree on TLS" + detail,
              "does it speak https there? If it asks clients for certificates (--client-cert-auth), [witness] "
              "needs certificate_file and certificate_key_file"};
    case HttpFailure::kOwnFile:
      return {"can't be asked, as a file of [witness] for TLS can't be used" + detail,
              "see `twinblockd --check`"};
    case HttpFailure::kClosed:
      return {"ended the connection without a whole answer" + detail,
              "see its log (`journalctl -u etcd`)" + if_it_has_certificates(access)};
    case HttpFailure::kTooLong:
      return {"answers more than " + format_size(limits::kWitnessAnswerBytesMax),
              "is that the port for etcd's clients (2379)?"};
    case HttpFailure::kNoHttp:
      return {"does not speak HTTP" + detail,
              "is that the port for etcd's clients (2379)?" + if_it_has_certificates(access)};
    case HttpFailure::kStopped:
      return {"was not asked to the end, as this node stops", ""};
  }
  return {"did nothing wrong", ""};
}

Error words_of(const EtcdAccess& access, const Fault& fault) {
  const std::string detail = " (" + fault.text + ")";
  switch (fault.kind) {
    case FaultKind::kToken:
      if (access.user.empty())
        return {"wants to know who asks" + detail,
                "add user and password_file to [witness], or `etcdctl auth disable` there"};
      return {"does not take the token that it has given" + detail, "see its log (`journalctl -u etcd`)"};
    case FaultKind::kCredentials:
      return {"does not know user '" + access.user + "' by the password in " + access.password_file + detail,
              "correct either; to set another password: " + etcdctl(as_root(access), "user passwd " + access.user)};
    case FaultKind::kPermission:
      if (access.user.empty()) return {"refuses access" + detail, "see who may use it"};
      return {"does not let user '" + access.user + "' do that" + detail,
              "give one of its roles the right: " +
                  etcdctl(as_root(access), "role grant-permission ROLE --prefix=true readwrite /twinblock/")};
    case FaultKind::kNoUsers:
      return {"has no users" + detail, "`etcdctl auth enable` there, or remove user and password_file"};
    case FaultKind::kNoLeader:
      return {"has no leader at the moment" + detail,
              "see that most of its members run: " + etcdctl(access, "endpoint health --cluster")};
    case FaultKind::kFull:
      return {"is full, and takes no writes" + detail,
              "make room (`etcdctl compact`, `etcdctl defrag`, or a larger --quota-backend-bytes), then: " +
                  etcdctl(access, "alarm disarm")};
    case FaultKind::kWantsTls:
      return {"wants TLS" + detail, "write https:// in endpoints of [witness]"};
    case FaultKind::kNotEtcd:
      return {"answers what etcd would not" + detail,
              "is that the port for etcd's clients (2379), and is etcd 3.4 or newer, with its gateway "
              "(--enable-grpc-gateway)?"};
    case FaultKind::kOther:
      break;
  }
  return {"could not do it" + detail, "see " + etcdctl(access, "endpoint status --cluster")};
}

Error words_of_entry(const EtcdAccess& access, const std::string& key, const Error& what) {
  std::string action = "see it with " + etcdctl(access, "get " + key) + " and find out who wrote it; ";
  action += "while both nodes are connected it may be removed with del, and is written anew";
  return {what.what + " at " + key, what.action.empty() ? action : what.action};
}

Error sentence_of(const std::vector<FailedEndpoint>& failed) {
  const FailedEndpoint& first = failed.front();
  if (failed.size() == 1) return {named(first.endpoint) + " " + first.words.what, first.words.action};
  std::string all;
  for (const auto& [endpoint, words] : failed) all += (all.empty() ? "" : ", ") + endpoint + " " + words.what;
  return {"none of etcd's endpoints could be asked: " + all, first.words.action};
}

}  // namespace twinblock::etcd
