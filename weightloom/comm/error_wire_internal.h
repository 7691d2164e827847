// Errors as messages between ranks. In the header, as wire_internal.h. Private to the library.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "weightloom/base/error.h"
#include "weightloom/comm/process_group.h"
#include "weightloom/comm/wire_internal.h"

namespace weightloom {

inline void put_error(WireWriter& writer, const RankError& error) {
  writer.put(error.rank());
  writer.put(static_cast<int64_t>(error.code()));
  writer.put(error.what());
  writer.put(error.next_step());
  writer.put(std::ssize(error.findings()));
  for (const Finding& finding : error.findings()) {
    writer.put(static_cast<int64_t>(finding.severity));
    for (const std::string* text :
         {&finding.code, &finding.tensor, &finding.file, &finding.message}) {
      writer.put(*text);
    }
  }
}

/// The inverse of put_error().
inline RankError take_error(WireReader& reader) {
  const int64_t rank = reader.number();
  const auto code = static_cast<ErrorCode>(reader.number());
  const std::string message = reader.text();
  std::string next_step = reader.text();
  std::vector<Finding> findings(static_cast<size_t>(reader.number()));
  for (Finding& finding : findings) {
    finding.severity = static_cast<Severity>(reader.number());
    for (std::string* text : {&finding.code, &finding.tensor, &finding.file, &finding.message}) {
      *text = reader.text();
    }
  }
  return RankError::told(rank, Error(code, message, std::move(next_step), std::move(findings)));
}

}  // namespace weightloom
