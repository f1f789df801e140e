// How a resync or a verification goes and went, in words. Pure. The objects are those of the
// status verb; members that are missing or of another type are left out of the text.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace twinblock {

// A running resync, without a newline:
// "52.1%, 1 GiB of 2 GiB, 310 MiB/s now, 290 MiB/s on average, 0:03 left".
std::string resync_line(const nlohmann::json& resync);

// What holds a running resync back, and how to change that; empty when nothing does. `volume` is
// for the command.
std::string resync_hold(const nlohmann::json& resync, const std::string& volume);

// "12 MiB sent as data, 3 MiB as zeroes, 80 MiB compared"; empty when nothing is known of it.
std::string sent_line(const nlohmann::json& sent);

// How a finished resync went; empty when `last_resync` is null.
std::string last_resync_line(const nlohmann::json& last_resync);

// How much of a verification is done.
double verify_percent(const nlohmann::json& verify);

// A verification that runs, as resync_line() and with what it has found.
std::string verify_line(const nlohmann::json& verify);

// One that has ended: how, what was compared, what differs and where first; empty when there was
// none.
std::string verify_result(const nlohmann::json& verify);

}  // namespace twinblock
