// Files that a witness is asked with ([witness] of the file): what they have to be like, before one of them
// is needed in a hurry. Any thread; they block.
#pragma once

#include <string>

#include "base/result.h"

namespace twinblock {

// A program that nobody can change but this user or root.
Status check_fence_command(const std::string& path);

// The password of etcd's user: the file's first line; nobody else can read it.
Result<std::string> read_etcd_password(const std::string& path);

// PEM: at least one certificate; a private key without a password, which nobody else can read.
Status check_certificates(const std::string& path);
Status check_certificate_key(const std::string& path);
// Those that are named (not empty).
Status check_tls_files(const std::string& ca, const std::string& certificate, const std::string& key);

}  // namespace twinblock
