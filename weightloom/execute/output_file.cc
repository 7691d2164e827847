#include <algorithm>

#include "weightloom/execute/output_file_internal.h"

namespace weightloom {
namespace {

constexpr size_t kPage = kDirectAlignmentBytes;

File open_output(const Syscalls& calls, const std::string& path, bool keep) {
  return keep ? File::open_write(calls, path) : File::create(calls, path);
}

bool is_aligned(std::span<const std::byte> bytes) {
  return reinterpret_cast<uintptr_t>(bytes.data()) % kPage == 0;
}

}  // namespace

OutputFile::OutputFile(const Syscalls& calls, const std::string& path, int64_t size_bytes,
                       bool keep)
    : buffered_(open_output(calls, path, keep)) {
  buffered_.allocate(size_bytes);
  direct_ = File::open_direct(calls, path);
}

void OutputFile::write(std::span<const std::byte> bytes, int64_t offset) const {
  const size_t ragged = static_cast<size_t>(-offset) % kPage;
  const size_t head = std::min(ragged, bytes.size());
  if (head > 0) buffered_.write_at(bytes.first(head), offset);
  const auto pages_at = offset + static_cast<int64_t>(head);
  const size_t done = head + write_pages(bytes.subspan(head), pages_at);
  if (done == bytes.size()) return;
  const auto rest_at = offset + static_cast<int64_t>(done);
  const auto rest = bytes.subspan(done);
  buffered_.write_at(rest, rest_at);
  buffered_.start_writeback(rest_at, static_cast<int64_t>(rest.size()));
}

size_t OutputFile::write_pages(std::span<const std::byte> bytes, int64_t offset) const {
  const auto pages = bytes.first(bytes.size() / kPage * kPage);
  if (!direct_ || pages.empty() || !is_aligned(pages)) return 0;
  return direct_->write_direct_at(pages, offset);
}

void OutputFile::close() {
  if (direct_) direct_->close();
  buffered_.close();
}

}  // namespace weightloom
