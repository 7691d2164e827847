#include "weightloom/cli/plan_page_style.h"

#include <array>

#include <fmt/format.h>

namespace weightloom::cli {
namespace {

constexpr std::string_view kStyle = R"css(
:root { color-scheme: light; --ink: #1d2430; --soft: #5b6675; --line: #d5dbe3; --ground: #f4f6f9; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink);
       font: 14px/1.45 system-ui, "DejaVu Sans", sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 20px 24px 60px; }
h1 { font-size: 22px; margin: 0 0 2px; overflow-wrap: anywhere; }
h2 { font-size: 16px; margin: 30px 0 8px; }
p, .soft { color: var(--soft); margin: 0 0 8px; }
code, .name { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: 12.5px;
              overflow-wrap: anywhere; }
.facts { display: flex; flex-wrap: wrap; gap: 8px; margin: 14px 0; padding: 0; }
.facts div { background: #fff; border: 1px solid var(--line); border-radius: 6px;
             padding: 6px 12px; }
.facts dt { color: var(--soft); font-size: 12px; }
.facts dd { margin: 0; font-weight: 600; }
.card { background: #fff; border: 1px solid var(--line); border-radius: 6px; padding: 10px 14px;
        margin: 0 0 10px; }
summary { cursor: pointer; }
summary .name { font-weight: 600; }
.tag { display: inline-block; background: #e8edf4; border-radius: 4px; padding: 0 6px;
       font-size: 12px; margin-left: 6px; white-space: nowrap; }
.tag.place { background: #dfeede; }
.row { display: grid; grid-template-columns: 270px 1fr; gap: 12px; align-items: center;
       margin: 3px 0; }
.key-row { margin: 6px 0; font-size: 12px; color: var(--soft); }
.key-row .name { color: var(--ink); }
.row > :first-child { font-size: 12px; text-align: right; color: var(--soft);
                      overflow-wrap: anywhere; }
h3 { font-size: 12px; font-weight: 600; color: var(--soft); margin: 12px 0 4px;
     text-transform: uppercase; letter-spacing: .04em; }
svg { display: block; overflow: hidden; background: #fff; outline: 1px solid #8a94a3; }
svg.key { height: 32px; }
svg.piece { height: 20px; }
svg.file { height: 18px; }
svg.bar { height: 14px; outline: none; }
.keys { display: flex; gap: 3px; }
.pieces { display: grid; grid-template-columns: repeat(auto-fill, minmax(330px, 1fr));
          gap: 8px 14px; font-size: 12px; color: var(--soft); }
rect { stroke: #fff; stroke-width: .7; }
rect.pad { fill: url(#pad); stroke: #8a94a3; }
rect.part { fill-opacity: .55; }
rect.all { fill: #aab4c2; }
rect.unread { fill: #fff; stroke: none; }
rect.even { fill: #8fa0b8; }
rect.odd { fill: #b9c5d6; }
rect.several { fill: #e1e6ed; }
rect.held { fill: #4e79a7; }
rect.over { fill: #e15759; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 12px; font-size: 12px; }
.legend .soft { margin: 0; }
.legend label { display: inline-flex; align-items: center; gap: 5px; cursor: pointer; }
.legend svg { width: 14px; height: 14px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { font-size: 12px; color: var(--soft); font-weight: 600; }
th, td { text-align: right; padding: 3px 8px; border-bottom: 1px solid #edf0f4;
         white-space: nowrap; }
th:first-child, td:first-child, td.bar, th.bar { text-align: left; }
td.bar { width: 45%; }
.card.findings { padding-left: 30px; }
.findings li { margin: 3px 0; overflow-wrap: anywhere; }
.findings .error { color: #b3261e; }
body.picked rect[class]:not(.picked):not(.pad) { opacity: .13; }
)css";

constexpr std::string_view kScript = R"js(
const picks = document.querySelectorAll('.legend [data-rank]');
let picked = null;
for (const pick of picks) pick.addEventListener('click', () => {
  picked = picked === pick.dataset.rank ? null : pick.dataset.rank;
  document.body.classList.toggle('picked', picked !== null);
  for (const r of document.querySelectorAll('rect.picked')) r.classList.remove('picked');
  if (picked === null) return;
  for (const r of document.querySelectorAll('rect.all, rect.m' + picked + ', rect.r' + picked))
    r.classList.add('picked');
});
)js";

// Hues that are told apart, also by those who do not see all of them.
constexpr std::array<std::string_view, 8> kFew = {"#4e79a7", "#f28e2b", "#59a14f", "#b07aa1",
                                                  "#e3c12f", "#76b7b2", "#d4687a", "#9c755f"};

}  // namespace

std::string_view plan_page_style() noexcept { return kStyle; }

std::string_view plan_page_script() noexcept { return kScript; }

std::string rank_colours(int64_t ranks) {
  std::string rules;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    if (ranks <= static_cast<int64_t>(kFew.size())) {
      rules += fmt::format(".r{}{{fill:{}}}\n", rank, kFew[static_cast<size_t>(rank)]);
      continue;
    }
    const double hue = 360.0 * static_cast<double>(rank) / static_cast<double>(ranks);
    rules += fmt::format(".r{}{{fill:hsl({:.0f} 55% {}%)}}\n", rank, hue, 42 + 14 * (rank % 3));
  }
  return rules;
}

}  // namespace weightloom::cli
