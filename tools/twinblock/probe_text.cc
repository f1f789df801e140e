#include "twinblock/probe_text.h"

#include <algorithm>
#include <array>
#include <vector>

#include "twinblock/json_fields.h"
#include "twinblock/link_text.h"
#include "twinblock/text_format.h"
#include "twinblock/text_wrap.h"

namespace twinblock {
namespace {

using nlohmann::json;

constexpr size_t kNameWidth = 14;
constexpr size_t kColumns = 70;

std::string rate(double bytes_per_s) {
  if (bytes_per_s >= 1e9) return printed("%.2f GB/s", bytes_per_s / 1e9);
  return bytes_per_s >= 1e7 ? printed("%.0f MB/s", bytes_per_s / 1e6) : printed("%.2f MB/s", bytes_per_s / 1e6);
}

std::string time_of(double seconds) { return compact_duration(static_cast<uint64_t>(seconds * 1e9)); }

std::string row(const std::string& name, const std::string& text) {
  std::string start = "  " + name;
  start.resize(std::max(start.size(), kNameWidth + 2), ' ');
  // Wrapped as if the name's place were one long word: what is wrapped keeps single spaces only.
  return start + wrapped(std::string(start.size(), '.') + text, kTextWidth, start.size()).substr(start.size()) + "\n";
}

std::string frame_row(const json& link) {
  const json frame = object_at(link, "frame");
  const std::string interface = text_at(frame, "interface") + ", MTU " + count_text(frame, "mtu_bytes");
  const std::string headers = printed("headers take %.1f%% of each packet", 100 * number_at(frame, "headers_share"));
  if (count_at(frame, "rate_bits_per_s") == 0)
    return row("a frame", interface + "; the driver does not say its rate; " + headers);
  return row("a frame", rate(number_at(frame, "bytes_per_s")) + ": " + interface + ", " +
                            bit_rate(count_at(frame, "rate_bits_per_s")) + "; " + headers);
}

std::string stream_row(const json& link) {
  const json stream = object_at(link, "stream");
  std::string text = rate(number_at(stream, "bytes_per_s")) + ", a plateau of " +
                     rate(number_at(stream, "plateau_bytes_per_s")) + " from " +
                     time_of(number_at(stream, "steady_from_s")) + " on";
  const size_t gaps = array_at(stream, "gaps").size();
  text += gaps == 0 ? "; no gaps"
                    : printed("; %zu gaps, %.1f%% of the time, the longest ", gaps, 100 * number_at(stream, "gap_share")) +
                          time_of(number_at(stream, "longest_gap_s"));
  if (flag_at(link, "clients_write"))
    text += "; the volume itself sent " + rate(number_at(stream, "beside_bytes_per_s")) + " beside it";
  if (flag_at(link, "encrypted")) text += "; encrypted, as the link is";
  return row("a stream", text);
}

std::string talk_row(const json& link) {
  std::string text;
  for (const json& talk : array_at(link, "conversations"))
    text += (text.empty() ? "" : "; ") + rate(number_at(talk, "bytes_per_s")) + " in writes of " +
            compact_size(count_at(talk, "write_bytes")) + ", one by one (" + count_text(talk, "writes_per_s") +
            " a second)";
  return row("conversation", text);
}

std::string round_trip_row(const json& link) {
  const json trip = object_at(link, "round_trip");
  return row("round trip", compact_duration(count_at(trip, "min_ns")) + " at least, " +
                               compact_duration(count_at(trip, "average_ns")) + " on average, p99 " +
                               compact_duration(count_at(trip, "p99_ns")));
}

std::string window_row(const json& link) {
  const json window = object_at(link, "window");
  std::string text = "the buffers had " + compact_size(count_at(window, "send_buffer_bytes")) + " here and " +
                     compact_size(count_at(window, "receive_buffer_bytes")) + " there";
  if (count_at(window, "most_bytes_per_s") != 0)
    text += "; they may grow to " + compact_size(count_at(window, "send_buffer_max_bytes")) + " and " +
            compact_size(count_at(window, "receive_buffer_max_bytes")) + " (net.ipv4.tcp_wmem, tcp_rmem), enough for about " +
            rate(number_at(window, "most_bytes_per_s")) + " over this round trip";
  return row("window", text);
}

std::string limit_row(const json& link) {
  const std::string limit = text_at(link, "limit");
  if (limit == "sender") return row("limit", "the sender: this node does not fill its socket fast enough");
  if (limit == "send-buffer") return row("limit", "the window: the sender's buffer is too small for this round trip");
  if (limit == "receive-buffer")
    return row("limit", "the window: the receiver's buffer is too small for this round trip");
  if (limit == "receiver") return row("limit", "the receiver: it reads more slowly than the link carries");
  return row("limit", "the link: nothing at either end held the stream up");
}

// Of the intervals that each column stands for, their rate; gaps are columns with a dot.
std::string arrivals_row(const json& stream) {
  static constexpr std::array<const char*, 9> kBars{"\u00b7", "\u2581", "\u2582", "\u2583", "\u2584",
                                                    "\u2585", "\u2586", "\u2587", "\u2588"};
  const json bytes = array_at(stream, "interval_bytes");
  if (bytes.empty()) return {};
  const size_t columns = std::min(kColumns, bytes.size());
  std::vector<double> sums(columns);
  for (size_t i = 0; i < bytes.size(); ++i)
    if (bytes[i].is_number()) sums[i * columns / bytes.size()] += bytes[i].get<double>();
  const double most = *std::max_element(sums.begin(), sums.end());
  std::string text;
  for (const double sum : sums)
    text += kBars[sum <= 0 || most <= 0 ? 0 : std::min<size_t>(8, 1 + static_cast<size_t>(7.99 * sum / most))];
  return "  arrived       " + text + "\n";
}

// --- the picture

constexpr double kWidth = 900, kHeight = 260, kLeft = 70, kRight = 20, kTop = 40, kBottom = 40;

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char letter : text) {
    if (letter == '&') safe += "&amp;";
    else if (letter == '<') safe += "&lt;";
    else if (letter == '>') safe += "&gt;";
    else if (letter == '"') safe += "&quot;";
    else safe += letter;
  }
  return safe;
}

std::string label(double x, double y, const char* anchor, const std::string& text) {
  return printed("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor) + escaped(text) + "</text>\n";
}

std::string picture_of(const json& link, double top) {
  const json stream = object_at(link, "stream");
  const json bytes = array_at(stream, "interval_bytes");
  const double interval_s = number_at(stream, "interval_s");
  const double length_s = std::max(interval_s, interval_s * static_cast<double>(bytes.size()));
  double most = 1;
  for (const json& each : bytes)
    if (each.is_number()) most = std::max(most, each.get<double>());
  // A burst of one interval must not press all else to the ground.
  const double full = std::min(most / interval_s, 2.5 * std::max(1.0, number_at(stream, "plateau_bytes_per_s")));
  const auto x = [&](double s) { return kLeft + (kWidth - kLeft - kRight) * s / length_s; };
  const auto y = [&](double bytes_per_s) {
    return top + kTop + (kHeight - kTop - kBottom) * (1 - std::min(1.0, bytes_per_s / full));
  };
  std::string svg = label(kLeft, top + 22, "start",
                          text_at(link, "link") + ", " + text_at(link, "from") + " to " + text_at(link, "to") +
                              ": bytes of each " + time_of(interval_s) + ", as a rate; plateau " +
                              rate(number_at(stream, "plateau_bytes_per_s")));
  for (const json& gap : array_at(stream, "gaps"))
    svg += printed("<rect class=\"gap\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\"/>\n",
                   x(number_at(gap, "begin_s")), y(full),
                   std::max(0.6, x(number_at(gap, "length_s")) - x(0)), y(0) - y(full));
  std::string bars = "<path class=\"bytes\" d=\"", line = "<path class=\"cumulative\" d=\"";
  double sum = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const double each = bytes[i].is_number() ? bytes[i].get<double>() : 0;
    sum += each;
    const double at = interval_s * static_cast<double>(i);
    if (each > 0) bars += printed("M%.2f %.1fV%.1f", x(at + interval_s / 2), y(0), y(each / interval_s));
    line += printed("%c%.2f %.1f", i == 0 ? 'M' : 'L', x(at + interval_s), y(sum / (at + interval_s)));
  }
  svg += bars + "\"/>\n" + line + "\"/>\n";
  const double plateau = y(number_at(stream, "plateau_bytes_per_s"));
  svg += printed("<path class=\"plateau\" d=\"M%.1f %.1fH%.1f\"/>\n", x(number_at(stream, "steady_from_s")), plateau,
                 kWidth - kRight);
  svg += printed("<path class=\"axis\" d=\"M%.1f %.1fV%.1fH%.1f\"/>\n", kLeft, y(full), y(0), kWidth - kRight);
  svg += label(kLeft - 6, y(full) + 4, "end", rate(full)) + label(kLeft - 6, y(0) + 4, "end", "0");
  return svg + label(kLeft, y(0) + 16, "middle", "0 s") +
         label(kWidth - kRight, y(0) + 16, "end", printed("%.2f s", length_s)) +
         label((kLeft + kWidth - kRight) / 2, y(0) + 30, "middle",
               "bars: an interval; line: the rate up to then; dashed: the plateau; red: gaps");
}

}  // namespace

std::string probe_text(const json& link) {
  const std::string failed = text_at(link, "error");
  std::string text = text_at(link, "link") + ", " + text_at(link, "from") + " to " + text_at(link, "to") + ":\n";
  if (!failed.empty()) return text + row("not probed", failed);
  text += frame_row(link) + stream_row(link) + talk_row(link) + round_trip_row(link) + window_row(link) +
          limit_row(link) + arrivals_row(object_at(link, "stream"));
  for (const json& warning : array_at(link, "warnings")) {
    text += row("warning", text_at(warning, "what"));
    text += row("to do", text_at(warning, "to_do"));
  }
  return text;
}

std::string probe_picture(const json& links) {
  double top = 0;
  std::string pictures;
  for (const json& link : links) {
    if (!text_at(link, "error").empty()) continue;
    pictures += picture_of(link, top);
    top += kHeight;
  }
  return printed("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\" "
                 "role=\"img\">\n",
                 kWidth, top, kWidth, top) +
         "<title>What came over the links, and when</title>\n"
         "<style>text{font:12px sans-serif;fill:#222}path{fill:none}.bytes{stroke:#3b7dd8;stroke-width:.7}"
         ".cumulative{stroke:#222;stroke-width:1.5}.plateau{stroke:#188038;stroke-width:1.5;stroke-dasharray:6 3}"
         ".axis{stroke:#888}.gap{fill:#d93025;fill-opacity:.35}</style>\n"
         "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n" +
         pictures + "</svg>\n";
}

}  // namespace twinblock
