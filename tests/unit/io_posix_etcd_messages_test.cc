// What is said to etcd, and what is made of its answers: also of those that it would never give.
#include "io/posix/etcd_messages.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace twinblock::etcd {
namespace {

using Json = nlohmann::json;

const std::string kUuid = "6f9619ff-8b86-d011-b42d-00cf4fc964ff";
const std::string kKey = "/twinblock/r0/" + kUuid;
const std::string kKeyBase64 = "L3R3aW5ibG9jay9yMC82Zjk2MTlmZi04Yjg2LWQwMTEtYjQyZC0wMGNmNGZjOTY0ZmY=";
const WitnessEntry kEntry{kUuid, 0x00ab12cd34ef5678, "alpha"};
const std::string kHeader = R"("header":{"cluster_id":"1","member_id":"2","revision":"7","raft_term":"2"})";

std::string range(const std::string& rest) { return "{" + kHeader + (rest.empty() ? "" : "," + rest) + "}"; }

// … of a transaction that read.
std::string read(const std::string& rest) {
  return range(R"("responses":[{"response_range":)" + range(rest) + "}]");
}

std::string pair(const std::string& value, const std::string& revision = "\"5\"") {
  return R"("kvs":[{"key":")" + kKeyBase64 + R"(","create_revision":"5","mod_revision":)" + revision +
         R"(,"version":"1","value":)" + value + R"(}],"count":"1")";
}

void expect_nonsense(const std::string& text) {
  const Result<ReadAnswer> answer = parse_read_answer(text, kKey);
  ASSERT_FALSE(answer.ok()) << text.substr(0, 200);
  EXPECT_TRUE(answer.error().what.starts_with("answers what etcd would not (")) << answer.error().what;
  EXPECT_FALSE(answer.error().action.empty());
}

TEST(EtcdMessages, the_entry_is_as_its_page_says) {
  const std::string without = R"({"version":1,"volume":"6f9619ff-8b86-d011-b42d-00cf4fc964ff",)"
                              R"("generation":"00ab12cd34ef5678","holder":"alpha")";
  EXPECT_EQ(entry_text({kEntry, 0}), without + "}");
  EXPECT_EQ(entry_text({kEntry, 0xab}), without + R"(,"register":"00000000000000ab"})");
  EXPECT_EQ(key_of("r0", kUuid), kKey);
}

TEST(EtcdMessages, an_entry_comes_back) {
  for (const std::string holder : {"", "alpha", "Host-1.example_x"})
    for (const uint64_t number : {uint64_t{1}, uint64_t{0x8000000000000000}, UINT64_MAX}) {
      const WitnessEntry entry{kUuid, number, holder};
      const Result<Marked> parsed = parse_entry(entry_text({entry, ~number}), kUuid);
      ASSERT_TRUE(parsed.ok()) << parsed.error().what;
      EXPECT_EQ(parsed.value().entry, entry);
      EXPECT_EQ(parsed.value().mark, ~number);
    }
}

TEST(EtcdMessages, what_a_later_twinblock_adds_to_this_version_is_left_alone) {
  const Result<Marked> parsed = parse_entry(
      R"({"version":1,"volume":")" + kUuid + R"(","generation":"0000000000000001","holder":"","since":5,"register":"x"})", kUuid);
  ASSERT_TRUE(parsed.ok()) << parsed.error().what;
  EXPECT_EQ(parsed.value().mark, 0u);
}

TEST(EtcdMessages, a_value_that_is_no_entry_is_refused) {
  const std::string volume = R"("volume":")" + kUuid + "\"";
  for (const std::string& text : std::vector<std::string>{
           "", "alpha", "null", "[]", "7", "{}", "{", R"({"version":"x"})", R"({"version":1})",
           "{\"version\":1," + volume + "}", "{\"version\":1," + volume + R"(,"generation":"0","holder":""})",
           "{\"version\":1," + volume + R"(,"generation":"0000000000000000","holder":""})",
           "{\"version\":1," + volume + R"(,"generation":"00000000000000AB","holder":""})",
           "{\"version\":1," + volume + R"(,"generation":"000000000000000x","holder":""})",
           "{\"version\":1," + volume + R"(,"generation":12,"holder":""})",
           "{\"version\":1," + volume + R"(,"generation":"0000000000000001"})",
           "{\"version\":1," + volume + R"(,"generation":"0000000000000001","holder":3})",
           "{\"version\":1," + volume + R"(,"generation":"0000000000000001","holder":"a b"})",
           "{\"version\":1," + volume + R"(,"generation":"0000000000000001","holder":"a\nb"})",
           "{\"version\":1," + volume + R"(,"generation":"0000000000000001","holder":")" + std::string(64, 'a') + "\"}",
           R"({"version":1,"volume":7,"generation":"0000000000000001","holder":""})"}) {
    const Result<Marked> parsed = parse_entry(text, kUuid);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_TRUE(parsed.error().what.starts_with("holds what is no entry of twinblock's (")) << text << ": "
                                                                                          << parsed.error().what;
  }
}

TEST(EtcdMessages, another_version_and_another_volume_are_named) {
  const Result<Marked> later = parse_entry(R"({"version":2})", kUuid);
  ASSERT_FALSE(later.ok());
  EXPECT_NE(later.error().what.find("version 2, which this twinblock does not know"), std::string::npos);
  WitnessEntry other = kEntry;
  other.volume_uuid = "another\x1b[31m";
  const Result<Marked> parsed = parse_entry(entry_text({other, 0}), kUuid);
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.error().what, "holds an entry of another volume (another?[31m)");
}

TEST(EtcdMessages, requests_are_what_the_gateway_takes) {
  EXPECT_EQ(Json::parse(read_request(kKey)),
            Json::parse(R"({"compare":[{"key":")" + kKeyBase64 + R"(","target":"VERSION","version":"0","result":"LESS"}],)" +
                        R"("success":[{"request_put":{"key":")" + kKeyBase64 + R"(","value":""}}],)" +
                        R"("failure":[{"request_range":{"key":")" + kKeyBase64 + R"("}}]})"));
  const Json create = Json::parse(replace_request(kKey, 0, {kEntry, 0}));
  EXPECT_EQ(create["compare"], Json::parse(R"([{"key":")" + kKeyBase64 +
                                           R"(","target":"CREATE","create_revision":"0","result":"EQUAL"}])"));
  const Json change = Json::parse(replace_request(kKey, 9007199254740993, {kEntry, 0}));
  EXPECT_EQ(change["compare"], Json::parse(R"([{"key":")" + kKeyBase64 +
                                           R"(","target":"MOD","mod_revision":"9007199254740993","result":"EQUAL"}])"));
  for (const Json& txn : {create, change}) {
    ASSERT_EQ(txn["success"].size(), 1u);
    EXPECT_EQ(txn["success"][0]["request_put"]["key"], kKeyBase64);
    EXPECT_FALSE(txn.contains("failure"));
  }
  EXPECT_EQ(Json::parse(authenticate_request("u\"x", "p\\\"y")), (Json{{"name", "u\"x"}, {"password", "p\\\"y"}}));
}

TEST(EtcdMessages, nothing_stands_where_no_key_is) {
  for (const char* rest : {"", R"("count":"0")", R"("kvs":[])", R"("kvs":[],"count":"0")"}) {
    const Result<ReadAnswer> answer = parse_read_answer(read(rest), kKey);
    ASSERT_TRUE(answer.ok()) << rest << answer.error().what;
    EXPECT_FALSE(answer.value().value.has_value());
    EXPECT_EQ(answer.value().revision, 0);
  }
}

TEST(EtcdMessages, a_value_comes_with_its_revision) {
  const Result<ReadAnswer> answer = parse_read_answer(read(pair("\"YWxwaGE=\"", "\"9007199254740993\"")), kKey);
  ASSERT_TRUE(answer.ok()) << answer.error().what;
  EXPECT_EQ(answer.value().value, "alpha");
  EXPECT_EQ(answer.value().revision, 9007199254740993);
  EXPECT_EQ(parse_read_answer(read(pair("\"\"")), kKey).value().value, "") << "an empty one is one, too";
}

// Whoever answers "{}" to everything must not count as an etcd in which nothing stands.
TEST(EtcdMessages, an_answer_that_is_not_etcds_is_refused) {
  for (const std::string& text : std::vector<std::string>{
           "", "hello", "{}", "[]", "null", "true", "{\"kvs\":[]}", R"({"header":{}})",
           R"({"header":{"revision":"0"}})", R"({"header":{"revision":"-1"}})", R"({"header":{"revision":"x"}})",
           R"({"header":{"revision":"1x"}})", R"({"header":{"revision":1.5}})",
           R"({"header":{"revision":"99999999999999999999"}})", R"({"header":"revision"})",
           R"({"header":[{"revision":"1"}]})", "\xff\xfe", "{\"header\":{\"revision\":\"1\"}",
           std::string(50'000, '['), std::string("{\"header\":") + std::string(20'000, '[')})
    expect_nonsense(text);
  for (const std::string& rest : std::vector<std::string>{
           R"("count":"1")", R"("count":"x")", R"("kvs":{})", R"("kvs":"x")", R"("kvs":[1])", R"("kvs":[{}])",
           R"("kvs":[{"key":"AAAA","mod_revision":"5","value":"AAAA"}])",
           R"("kvs":[{"key":")" + kKeyBase64 + R"("}])", pair("5"), pair("null"), pair("\"?!\""), pair("\"AAAA\"", "0"),
           pair("\"AAAA\"", "\"-5\""), pair("\"AAAA\"", "[]"), R"("kvs":[{},{}])"})
    expect_nonsense(read(rest));
  for (const std::string& rest : std::vector<std::string>{
           "", R"("responses":[])", R"("responses":{})", R"("responses":[1])", R"("responses":[{}])",
           R"("responses":[{"response_range":1}])", R"("responses":[{"response_range":{}},{}])",
           R"("succeeded":true,"responses":[{"response_put":{}}])"})
    expect_nonsense(range(rest));
}

TEST(EtcdMessages, a_replacement_succeeded_or_not) {
  EXPECT_TRUE(parse_replace_answer(range(R"("succeeded":true,"responses":[])")).value());
  EXPECT_FALSE(parse_replace_answer(range(R"("succeeded":false)")).value());
  EXPECT_FALSE(parse_replace_answer(range("")).value());
  for (const std::string& text : std::vector<std::string>{
           "{}", "", "{\"succeeded\":true}", range(R"("succeeded":"true")"), range(R"("succeeded":1)"),
           range(R"("succeeded":null)")})
    EXPECT_FALSE(parse_replace_answer(text).ok()) << text;
}

TEST(EtcdMessages, a_token_fits_a_line) {
  EXPECT_EQ(parse_token(range(R"("token":"abc.12")")).value(), "abc.12");
  for (const std::string& rest : std::vector<std::string>{
           "", R"("token":"")", R"("token":7)", R"("token":"a\r\nX: y")", R"("token":"a b")", R"("token":"\u00e9")",
           R"("token":")" + std::string(5000, 'a') + "\""})
    EXPECT_FALSE(parse_token(range(rest)).ok()) << rest;
}

TEST(EtcdMessages, faults_are_told_apart) {
  const auto kind = [](int status, const std::string& error) {
    return parse_fault(status, Json{{"error", error}, {"message", error}, {"code", 2}}.dump()).kind;
  };
  EXPECT_EQ(kind(401, "etcdserver: invalid auth token"), FaultKind::kToken);
  EXPECT_EQ(kind(400, "etcdserver: user name is empty"), FaultKind::kToken);
  EXPECT_EQ(kind(400, "etcdserver: authentication failed, invalid user ID or password"), FaultKind::kCredentials);
  EXPECT_EQ(kind(403, "etcdserver: permission denied"), FaultKind::kPermission);
  EXPECT_EQ(kind(400, "etcdserver: authentication is not enabled"), FaultKind::kNoUsers);
  EXPECT_EQ(kind(503, "etcdserver: no leader"), FaultKind::kNoLeader);
  EXPECT_EQ(kind(503, "etcdserver: request timed out, possibly due to connection lost"), FaultKind::kNoLeader);
  EXPECT_EQ(kind(503, "etcdserver: mvcc: database space exceeded"), FaultKind::kFull);
  EXPECT_EQ(kind(500, "etcdserver: something new"), FaultKind::kOther);
  EXPECT_EQ(kind(401, "who are you"), FaultKind::kToken);
  EXPECT_EQ(kind(403, "no"), FaultKind::kPermission);
  EXPECT_EQ(parse_fault(400, "Client sent an HTTP request to an HTTPS server.\n").kind, FaultKind::kWantsTls);
  EXPECT_EQ(parse_fault(404, "404 page not found\n").kind, FaultKind::kNotEtcd);
  EXPECT_EQ(parse_fault(302, "").kind, FaultKind::kNotEtcd);
  EXPECT_EQ(parse_fault(404, "404 page not found\n").text, "HTTP status 404: 404 page not found");
  EXPECT_EQ(parse_fault(503, R"({"message":"of gateway 2"})").text, "HTTP status 503: of gateway 2");
}

TEST(EtcdMessages, what_others_say_is_one_short_line) {
  EXPECT_EQ(quotable("a\nb\x1b[2Jc\r\n"), "a?b?[2Jc");
  EXPECT_EQ(quotable(std::string(1000, 'x')).size(), 203u);
  EXPECT_EQ(quotable("\xc3\xa9"), "??");
  EXPECT_EQ(parse_fault(500, std::string(60'000, '\x01')).text.find('\x01'), std::string::npos);
}

}  // namespace
}  // namespace twinblock::etcd
