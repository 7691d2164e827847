#include "weightloom/cli/plan_page.h"

#include <algorithm>

#include <fmt/format.h>

#include "weightloom/base/byte_size.h"
#include "weightloom/cli/html_text.h"
#include "weightloom/cli/plan_page_style.h"
#include "weightloom/cli/plan_text.h"
#include "weightloom/cli/quantity.h"
#include "weightloom/cli/tensor_card.h"

namespace weightloom::cli {
namespace {

constexpr size_t kMostRankRows = 64;
constexpr size_t kMostFileRows = 64;
constexpr size_t kMostOpenFiles = 8;
constexpr size_t kMostLegend = 64;
constexpr size_t kMostReaders = 4096;  // rectangles for who reads which file
constexpr size_t kMostFindings = 200;

std::string fact(std::string_view name, std::string_view value) {
  return fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", html(name), html(value));
}

std::string facts(const PlanReport& plan) {
  const Cost& cost = plan.cost;
  std::string text = "<dl class=\"facts\">\n";
  text += fact("targets", fmt::to_string(plan.conversion.program.targets().size()));
  text += fact("needed", format_byte_size(cost.bytes_needed));
  text += fact(
      "read", fmt::format("{} (×{:.2f})", format_byte_size(cost.bytes_read), cost.amplification()));
  text += fact("written", format_byte_size(cost.bytes_written));
  text += fact("files read", fmt::to_string(cost.files));
  text += fact("regions", fmt::to_string(cost.regions));
  text += fact("memory", format_byte_size(plan.peak_memory_bytes()));
  text += fact("disk", format_byte_size(plan.disk_bytes_needed));
  return text + "</dl>\n";
}

std::string heading(const PlanReport& plan) {
  const PlanWords words = words_of(plan);
  std::string text = fmt::format("<h1>{}</h1>\n<p>{} → {}</p>\n", html(plan.source),
                                 html(words.from), html(words.to));
  if (!words.mesh.empty()) text += fmt::format("<p>mesh {}</p>\n", html(words.mesh));
  return text;
}

std::string findings_part(const PlanReport& plan) {
  const auto& findings = plan.conversion.findings;
  if (findings.empty()) return "";
  std::string text = "<h2>Findings</h2>\n<ul class=\"card findings\">\n";
  for (size_t i = 0; i < std::min(findings.size(), kMostFindings); ++i) {
    const Finding& finding = findings[i];
    const bool is_error = finding.severity == Severity::error;
    text += fmt::format("<li class=\"{}\"><code>{}</code> {}</li>\n", is_error ? "error" : "note",
                        html(finding.code), html(finding.message));
  }
  if (findings.size() > kMostFindings) {
    text += fmt::format("<li>and {} more; plan --json lists all</li>\n",
                        findings.size() - kMostFindings);
  }
  return text + "</ul>\n";
}

/// "fsdp 1, tp 0".
std::string coordinate_text(const Mesh& mesh, int64_t rank) {
  std::string text;
  const std::vector<int64_t> coordinate = mesh.coordinate(rank);
  for (size_t i = 0; i < coordinate.size(); ++i) {
    text += fmt::format("{}{} {}", i == 0 ? "" : ", ", mesh.axes()[i].name, coordinate[i]);
  }
  return text;
}

/// The colours, and what else is drawn in the cards.
std::string legend(const PlanReport& plan, const PlanPicture& picture) {
  if (!plan.conversion.spread) return "";
  const Mesh& mesh = plan.conversion.spread->meshes.first();
  std::string text = "<div class=\"legend card\">\n";
  for (size_t i = 0; i < std::min(picture.ranks.size(), kMostLegend); ++i) {
    const int64_t rank = picture.ranks[i];
    text += fmt::format(
        "<label data-rank=\"{0}\"><svg><rect class=\"r{0}\" width=\"100%\" height=\"100%\"/></svg>"
        "{0} <span class=\"soft\">{1}</span></label>\n",
        rank, html(coordinate_text(mesh, rank)));
  }
  if (picture.ranks.size() > kMostLegend) text += "<span>… and so on</span>\n";
  text +=
      "<label><svg><rect class=\"all\" width=\"100%\" height=\"100%\"/></svg>all ranks</label>\n";
  text += "<label><svg><rect class=\"pad\" width=\"100%\" height=\"100%\"/></svg>padding</label>\n";
  return text + "</div>\n";
}

double share(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

/// What ranks hold, and beyond its end what they read in vain, against the largest of all.
std::string rank_bar(const RankSummary& summary, int64_t most) {
  const int64_t wasted = std::max<int64_t>(summary.bytes_read - summary.bytes_needed, 0);
  const int64_t padding = std::max<int64_t>(summary.bytes_written - summary.bytes_needed, 0);
  const double needed = share(summary.bytes_needed, most);
  const double padded = needed + share(padding, most);
  std::string rectangles = html_rectangle(
      {0, needed, 0, 1}, "held", fmt::format("needed: {}", format_byte_size(summary.bytes_needed)));
  if (padding > 0) {
    rectangles += html_rectangle({needed, padded, 0, 1}, "pad",
                                 fmt::format("padding: {}", format_byte_size(padding)));
  }
  if (wasted > 0) {
    rectangles += html_rectangle({padded, padded + share(wasted, most), 0, 1}, "over",
                                 fmt::format("read in vain: {}", format_byte_size(wasted)));
  }
  return html_drawing("bar", 1, rectangles);
}

std::string rank_row(std::string_view ranks, const RankSummary& summary, int64_t most) {
  return fmt::format(
      "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>×{:.2f}</td><td>{}</td><td>{}</td>"
      "<td class=\"bar\">{}</td></tr>\n",
      html(ranks), summary.targets, format_byte_size(summary.bytes_written),
      format_byte_size(summary.bytes_read), summary.amplification(), summary.regions, summary.files,
      rank_bar(summary, most));
}

/// Room that the bar of a rank takes.
int64_t length_of(const RankSummary& summary) {
  return std::max(summary.bytes_written, summary.bytes_needed) +
         std::max<int64_t>(summary.bytes_read - summary.bytes_needed, 0);
}

std::string ranks_part(const PlanReport& plan) {
  if (plan.ranks.empty()) return "";
  int64_t most = 0;
  for (const RankSummary& summary : plan.ranks) most = std::max(most, length_of(summary));
  std::string text =
      "<h2>Bytes of each rank</h2>\n<div class=\"card\"><table>\n<tr><th>rank</th><th>targets</th>"
      "<th>holds</th><th>reads</th><th>×</th><th>regions</th><th>files</th><th class=\"bar\">"
      "needed, padding, read in vain</th></tr>\n";
  const std::vector<AlikeRanks> folded = fold_ranks(plan.ranks);
  if (folded.size() <= kMostRankRows) {
    for (const AlikeRanks& alike : folded) text += rank_row(alike.text(), alike.summary, most);
  } else {
    for (const NotableRank& notable : notable_ranks(plan.ranks)) {
      text += rank_row(fmt::format("{}: {}", notable.what, notable.summary.rank), notable.summary,
                       most);
    }
  }
  return text + "</table></div>\n";
}

std::string run_rectangle(const PlanPicture& picture, const FilePicture& file, const FileRun& run) {
  const bool is_one = run.pattern >= 0;
  const std::string name =
      is_one ? picture.patterns[static_cast<size_t>(run.pattern)].name.text() : "several tensors";
  const std::string classes = !is_one ? "several" : run.pattern % 2 == 0 ? "even" : "odd";
  return html_rectangle(
      {share(run.begin_bytes, file.size_bytes), share(run.end_bytes, file.size_bytes), 0, 1},
      classes, fmt::format("{}: {}", name, format_byte_size(run.end_bytes - run.begin_bytes)));
}

/// Who needs how many bytes of a file, side by side.
std::string readers_drawing(const PlanPicture& picture, const FilePicture& file, double width) {
  int64_t all = 0;
  for (const int64_t bytes : file.rank_bytes) all += bytes;
  std::string rectangles;
  int64_t begin = 0;
  for (size_t i = 0; i < file.rank_bytes.size(); ++i) {
    const int64_t bytes = file.rank_bytes[i];
    if (bytes == 0) continue;
    rectangles += html_rectangle(
        {share(begin, all), share(begin + bytes, all), 0, 1}, fmt::format("r{}", picture.ranks[i]),
        fmt::format("rank {} needs {}", picture.ranks[i], format_byte_size(bytes)));
    begin += bytes;
  }
  return html_drawing("file", width, rectangles);
}

std::string file_row(const PlanPicture& picture, const FilePicture& file, int64_t most,
                     bool with_readers) {
  std::string runs;
  for (const FileRun& run : file.runs) runs += run_rectangle(picture, file, run);
  const double width = share(file.size_bytes, most);
  std::string drawings = html_drawing("file", width, runs);
  if (with_readers) drawings += readers_drawing(picture, file, width);
  return fmt::format(
      "<div class=\"row\"><div><span class=\"name\">{}</span><br>{}</div><div>{}"
      "</div></div>\n",
      html(file.name), format_byte_size(file.size_bytes), drawings);
}

std::string files_part(const PlanPicture& picture) {
  int64_t most = 0;
  for (const FilePicture& file : picture.files) most = std::max(most, file.size_bytes);
  const size_t shown = std::min(picture.files.size(), kMostFileRows);
  const bool with_readers = shown * picture.ranks.size() <= kMostReaders;
  std::string text = fmt::format(
      "<h2>Files</h2>\n<details class=\"card\"{}><summary>{}; above the keys of each, to "
      "scale; below the bytes that each rank needs of it</summary>\n",
      shown <= kMostOpenFiles ? " open" : "",
      count_text(static_cast<int64_t>(picture.files.size()), "file"));
  for (size_t i = 0; i < shown; ++i) {
    text += file_row(picture, picture.files[i], most, with_readers);
  }
  if (shown < picture.files.size()) {
    text += fmt::format("<p>and {} more files</p>\n", picture.files.size() - shown);
  }
  return text + "</details>\n";
}

std::string tensors_part(const PlanReport& plan, const PlanPicture& picture) {
  std::string text =
      "<h2>Tensors</h2>\n<p>Each bar is a tensor: dim 0 runs from left to right, the other dims "
      "from top to bottom. A key's colours say which rank takes which part; below stands what each "
      "rank holds. Tensors whose names differ in numbers only are drawn once.</p>\n";
  text += legend(plan, picture);
  for (const TensorPattern& pattern : picture.patterns) text += tensor_card(picture, pattern);
  return text;
}

constexpr std::string_view kPadding =
    "<svg style=\"position:absolute;width:0;height:0;outline:none\" aria-hidden=\"true\"><defs>"
    "<pattern id=\"pad\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
    "patternTransform=\"rotate(45)\"><rect width=\"6\" height=\"6\" fill=\"#fff\"/>"
    "<rect width=\"2\" height=\"6\" fill=\"#8a94a3\"/></pattern></defs></svg>\n";

}  // namespace

std::string plan_page(const PlanReport& plan, const PlanPicture& picture) {
  const int64_t world = plan.conversion.spread ? plan.conversion.spread->meshes.size() : 1;
  std::string text = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>Plan of {}"
      "</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>{}{}</style>\n</head>\n<body>\n{}"
      "<main>\n",
      html(plan.source), plan_page_style(), rank_colours(world), kPadding);
  text += heading(plan) + facts(plan) + findings_part(plan) + ranks_part(plan);
  text += files_part(picture) + tensors_part(plan, picture);
  return text + fmt::format("</main>\n<script>{}</script>\n</body>\n</html>\n", plan_page_script());
}

}  // namespace weightloom::cli
