// The note of how a volume is attached on this host, RUNTIME/VOLUME.attach.json: written before
// each step is taken, so that `detach` can undo exactly what was done, also after a crash in
// between.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/result.h"
#include "twinblock/process.h"

namespace twinblock {

// How a device came about; these names are printed and written to the note.
constexpr const char* kMethodNbd = "nbd";               // the kernel's nbd
constexpr const char* kMethodNbdfuse = "nbdfuse";       // a file by nbdfuse, a loop device on it
constexpr const char* kMethodNbdfuseFile = "nbdfuse-file";  // that file alone

struct Attachment {
  std::string volume;
  std::string node;
  std::string method;
  std::string device;     // what the user works with; empty until it is known
  std::string mount_dir;  // of nbdfuse; empty with the kernel's nbd
  std::string file;       // in mount_dir
  std::string log;        // of nbdfuse
  ProcessId nbdfuse;      // pid 0 until it was started
  pid_t node_pid = 0;     // of the node's process; another one means that this device is cut off
  // Of the kernel's nbd only:
  pid_t nbd_pid = 0;        // who connected the kernel's device; 0: not known
  std::string link;         // its stable name, /dev/twinblock/VOLUME
  std::string volume_uuid;  // what was attached: of which volume …
  uint64_t term = 0;        // … and of which promotion; 0: the node did not say
  ProcessId server;         // whom the kernel is connected with, or was …
  pid_t client_pid = 0;     // … and who made that connection; 0: not known
  ProcessId hung_up_by;     // who has it ended, to make another one, while there is no server
  std::string ended;        // why the device was ended under those who use it; empty: it was not
  ProcessId maker;          // who attaches it, until that is complete; pid 0: not known
  bool complete = false;  // false: attach ended half-way
};

nlohmann::json to_json(const Attachment& attachment);

std::string attachment_path(const std::string& stem);

// nullopt when the volume is not attached; an error when the note can't be read or understood.
Result<std::optional<Attachment>> read_attachment(const std::string& stem);
// The first note of an attachment: an error where there is one already (two commands at once).
Status create_attachment(const std::string& stem, const Attachment& attachment);
Status update_attachment(const std::string& stem, const Attachment& attachment);
// The same in two steps, of which the second one takes no room on the disk: what is done in between is on record
// though it may be full. What was not placed goes with this.
class StagedNote {
 public:
  explicit StagedNote(const std::string& stem);
  ~StagedNote();
  StagedNote(const StagedNote&) = delete;
  StagedNote& operator=(const StagedNote&) = delete;
  Status write(const Attachment& attachment);
  Status place();

 private:
  const std::string path_;
  const std::string staged_;
};
// Who holds the note changes it, or removes it, once, going by what it says since; others who are to hold it wait.
class HeldNote {
 public:
  explicit HeldNote(const std::string& stem);
  ~HeldNote();
  HeldNote(const HeldNote&) = delete;
  HeldNote& operator=(const HeldNote&) = delete;

 private:
  int fd_ = -1;
};
Status remove_attachment(const std::string& stem);

}  // namespace twinblock
