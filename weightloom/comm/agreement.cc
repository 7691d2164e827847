#include "weightloom/comm/agreement.h"

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weightloom/comm/error_wire_internal.h"

namespace weightloom {
namespace {

std::string ranks_text(const std::vector<int64_t>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

/// The errors of those ranks that have one, in their order.
std::vector<RankError> gathered(ProcessGroup& group, const std::optional<Error>& mine) {
  WireWriter writer;
  if (mine) put_error(writer, RankError(group.world_rank(), *mine));
  std::vector<RankError> errors;
  for (const auto& bytes : group.all_gather_v(std::move(writer).bytes())) {
    if (bytes.empty()) continue;
    WireReader reader(bytes);
    errors.push_back(take_error(reader));
  }
  return errors;
}

std::vector<Finding> findings_of(const std::vector<RankError>& errors) {
  std::vector<Finding> findings;
  for (const RankError& error : errors) {
    for (Finding finding : error.findings()) {
      finding.message = fmt::format("rank {}: {}", error.rank(), finding.message);
      findings.push_back(std::move(finding));
    }
  }
  return findings;
}

std::string message_of(const std::vector<RankError>& errors) {
  std::vector<int64_t> others;
  for (const RankError& error : errors) {
    if (error.rank() != errors.front().rank()) others.push_back(error.rank());
  }
  if (others.empty()) return errors.front().what();
  return fmt::format("{} ({} failed too)", errors.front().what(), ranks_text(others));
}

}  // namespace

void agree(ProcessGroup& group, const std::optional<Error>& mine) {
  const std::vector<RankError> errors = gathered(group, mine);
  if (errors.empty()) return;
  throw RankError::told(errors.front().rank(),
                        Error(errors.front().code(), message_of(errors), errors.front().next_step(),
                              findings_of(errors)));
}

void run_agreed(ProcessGroup& group, const std::function<void()>& local) {
  std::optional<Error> mine;
  try {
    local();
  } catch (const Error& error) {
    mine = error;
  } catch (const std::exception& error) {
    mine = Error(ErrorCode::io, error.what());
  }
  agree(group, mine);
}

void require_equal(ProcessGroup& group, uint64_t digest, std::string_view what) {
  WireWriter writer;
  writer.put(static_cast<int64_t>(digest));
  writer.put(group.world_rank());
  std::vector<int64_t> different;
  int64_t first = 0;
  uint64_t wanted = 0;
  const auto all = group.all_gather_v(std::move(writer).bytes());
  for (const auto& bytes : all) {
    WireReader reader(bytes);
    const auto theirs = static_cast<uint64_t>(reader.number());
    const int64_t rank = reader.number();
    if (&bytes == &all.front()) {
      wanted = theirs;
      first = rank;
    }
    if (theirs != wanted) different.push_back(rank);
  }
  if (different.empty()) return;
  throw Error(ErrorCode::plan,
              fmt::format("{}: {} is not that of rank {}", ranks_text(different), what, first),
              "give all ranks the same configuration, files and options");
}

}  // namespace weightloom
