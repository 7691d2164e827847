// Agreement: what one rank knows to be wrong becomes an error on all ranks, before the collective
// that some of them would wait in for ever. The group stays usable.
//
// Each function is a collective call. Thread safety: as the group.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "weightloom/base/error.h"
#include "weightloom/base/export.h"
#include "weightloom/comm/process_group.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// Returns on all ranks if none has an error.
/// Errors: RankError on all ranks, of the first rank that has one, with the findings of all, each of
/// which begins with its rank; the message says which ranks failed too.
void agree(ProcessGroup& group, const std::optional<Error>& mine);

/// Does something local, and agrees that it went well everywhere.
/// Errors: as agree(), for what `local` throws.
void run_agreed(ProcessGroup& group, const std::function<void()>& local);

/// Returns on all ranks if all give the same digest of `what` ("the plan").
/// Errors: plan on all ranks, naming those that differ from the first.
void require_equal(ProcessGroup& group, uint64_t digest, std::string_view what);

}  // namespace weightloom
