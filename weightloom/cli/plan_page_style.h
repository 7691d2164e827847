// The style and the script of a plan's page. Without the script all is there to see; it lets a
// reader pick a rank out.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weightloom::cli {

std::string_view plan_page_style() noexcept;
/// Colours for the ranks that are drawn, as rules of the classes `r0`, `r1`, ….
std::string rank_colours(int64_t ranks);
std::string_view plan_page_script() noexcept;

}  // namespace weightloom::cli
