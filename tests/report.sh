#!/bin/sh
# report.sh - the page of make report, made of records written by hand: what it says, that no byte of a student's gets out of its place,
# and that it needs no other file. With python3 its markup is parsed, with a browser (chromium, or WB_BROWSER) it is looked at: the text
# that is shown, the console, the width of a phone.
set -u
out=build/${BACKEND:-cpu}
. tests/prove/frame.sh
trap 'rm -rf "$scratch" "$out/report_test"' EXIT
trap 'exit 2' INT TERM
rm -rf "$out/report_test"
grade=$scratch/grade plots=$scratch/plots page=$scratch/page.html
mkdir "$grade" "$plots"

has() { grep -qF -- "$1" "$page"; verdict $? "${2:-says: $1}"; }
lacks() { ! grep -qF -- "$1" "$page"; verdict $? "${2:-does not say: $1}"; }
make_page() { "$out/score" report "$grade" problems "$plots" >"$page"; }

# ------------------------------------------------------------------------------------------------------------- the records
# Markup, the ends of comments and of CDATA, controls, what is no UTF-8, a text that runs from right to left, and 0.
printf '</pre></title></style><script>alert("x")</script><img src=x onerror="alert(1)"/> ]]> --> <!-- & &lt; &#0; '"'"'"' >"$scratch/evil"
printf '\001\010\013\033[1m\177 \377\376 \303( \355\240\200 \364\220\200\200 \357\277\276 \302\205 \342\200\256 %%s%%n\000' >>"$scratch/evil"
evil() { cat "$scratch/evil"; }

state() { # NN STATE, and a report from standard input
    echo "$2" >"$grade/$1.state"
    cat >"$grade/$1.report"
    { printf 'date\t2026-01-0%s 10:00 UTC\nbackend\tcpu\nseed\t7\nmachine\t4 x ' "${1#0}"; evil; echo; } >"$grade/$1.run"
}
results() { # NN, from standard input lines of status, test, case, checkpoint, message
    { echo; awk -F '\t' -v OFS='\t' '{ print $1, $2, NR, 0, $3, $4, $5 }'; } >"$grade/$1.results"
}
for n in 01 02 09; do
    awk -F'|' '!/^#/ { print $3 }' problems/$n/checkpoints.txt | tr ' ' '\n' | sed -n 's/^if://; s/./ok\t&/p' | results $n
done
echo "24 passed, 0 failed, 0 skipped" | state 01 passed
echo "18 passed, 0 failed, 0 skipped" | state 02 passed
echo "every checkpoint is won, and yet" | state 09 failed
field() { evil | tr '\0' '?'; } # in a record, which has no 0
echo "what the suite said" | state 03 failed
{
    printf 'ok\t%s\n' O_of_one_tile worked_by_hand one_key ragged_keys ragged_queries ragged_both
    printf 'FAIL\tO_of_many_tiles\tB=1,Nq=5,seed=7\t\tfirst '; field; printf '\\n  by hand     worker\\n  it printed  9 passed\n'
    printf 'FAIL\tevery_input\t\t\tsecond\\n  in full\nFAIL\tscales\t\t\tthird\n'
    printf 'SKIP\tmemory\t\t\tthe reason '; field
    printf '\nok\theld-out case 1\t\ttile\t\nFAIL\theld-out case 2\t\tnumbers\t\n'
} | results 03
{ printf 'sanitize: race '; evil; printf '\n     | long '; head -c 200000 /dev/zero | tr '\0' w; } >"$grade/03.sanitize"
{ printf '  your result matches a kernel that '; evil; printf '\n  look at: there\n'; } >"$grade/03.mistake"
{ evil; echo; head -c 200000 /dev/zero | tr '\0' x; echo; } >"$grade/04.compiler"
evil | state 04 "compile error"
evil | state 05 failed
{ printf 'FAIL\t'; field; printf '\t'; field; printf '\tgroups\ttext\n'; } | results 05
evil | state 06 'x"><script>'
echo "  not started" | state 07 "not started"
echo "right results, but the check build found something" | state 08 failed
echo "sanitize: late" >"$grade/08.sanitize"
printf 'ok\tdelta\n' | results 08

{
    printf '<svg xmlns="http://www.w3.org/2000/svg" width="10" height="10"><script>alert(2)</script>'
    printf '<text><tspan>title "quoted"</tspan><tspan>measured here: a machine " onload="alert(3)</tspan></text></svg>'
} >"$plots/03_flash_forward_speed.svg"
cp plots/mask_04.svg "$plots/mask_04.svg"
cp plots/mask_04.svg "$plots/mask_03.svg"

# ------------------------------------------------------------------------------------------------------------ what it says
make_page
verdict $? "a page is written"
has 'make plot-01</code> show how fast it is.' "what is next after all points"
has 'make plot-02</code> show how much memory it takes; how fast it is shows on a GPU.' "and where the time was an emulator's"
"$out/score" possible >"$scratch/possible"
required=$(sed -n 's/^required.//p' "$scratch/possible") bonus=$(sed -n 's/^bonus.//p' "$scratch/possible")
sum="Score: 340/$required (+ bonus 220/$bonus"
has "<p id=\"score\">$sum"
has "<p id=\"score\">$("$out/score" total "$grade")</p>" "the score is the one of make test"
for n in $(ls problems | grep -x '[0-9][0-9]'); do
    [ "$(grep -c "id=\"p$n\"" "$page")" -eq 1 ] && grep -q "<a href=\"#p$n\">$n " "$page"
    verdict $? "problem $n is there, and in the table"
done
grep -q '<li id="p07">07 flash_sinks: not started.*make test-07</code>.*</li>$' "$page"
verdict $? "a problem that is not started is one line"
has '<li id="p06">06 flash_window: not run' "a problem without a record that can be read is one line"
for points in '200 / 200' '40 / 200' '20 / 200 bonus' '200 / 200 bonus'; do has "$points</span>"; done
has '<code>O_of_many_tiles</code> fails): <code>make test-03 CASE=B=1,Nq=5,seed=7</code>' "the next step names test and case"
has 'needs tiles, L first' "what a checkpoint needs"
has '<code>L_of_one_tile</code> has not run' "a test that has not run"
[ "$(grep -c '<details>' "$page")" -ge 1 ] && awk '/<h3>3 failing tests/ { on = 1 } on && /in full/ { full = 1 } on && /<details>/ { folded = full } on && /third/ { exit !folded }' "$page"
verdict $? "two failures in full, the third folded"
has '<h3>1 test without a verdict</h3>' "a test without a verdict"
has 'Held-out cases: 1 of 2 right'
[ "$(grep -c '<h3>What the check build found' "$page")" -eq 2 ]
verdict $? "what the check build found, after a failure and alone"
has '<b>A likely mistake:</b>' "a mistake that is named"
has '<h3>What the compiler said</h3>'
has '<dd>2026-01-01 10:00 UTC to 2026-01-09 10:00 UTC</dd>' "from the first run to the last"
has '<dt>Seed</dt><dd>7</dd>'
has '<dt>Backend</dt><dd>cpu</dd>'
has '<img alt="Speed against size, flash_forward"' "a chart has words"
[ "$(grep -c '<figure class="mask">' "$page")" -eq 1 ]
verdict $? "the mask of a masked problem, and of no other"
if command -v base64 >/dev/null; then
    sed -n 's/.*src="data:image\/svg+xml;base64,\([^"]*\)".*/\1/p' "$page" | head -n 1 | base64 -d | cmp -s - "$plots/03_flash_forward_speed.svg"
    verdict $? "a chart is there unchanged"
fi
mv "$plots/03_flash_forward_speed.svg" "$scratch/chart.svg"
make_page
has 'Speed against size. Not measured here: the recorded chart' "without a chart of one's own the recorded one, which says so"
mv "$scratch/chart.svg" "$plots/03_flash_forward_speed.svg"
make_page

# --------------------------------------------------------------------------------------------------- that nothing gets out
has '&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt;&lt;img src=x onerror=&quot;alert(1)&quot;/&gt; ]]&gt; --&gt; &lt;!-- &amp; &amp;lt; &amp;#0;' "markup is text"
lacks '<script'
lacks '<img src=x'
has "content=\"default-src 'none'" "a policy that nothing runs and nothing is loaded"
[ "$(tr -d '\t\n\040-\176\200-\377' <"$page" | wc -c)" -eq 0 ]
verdict $? "no control characters"
[ "$(wc -c <"$page")" -lt 1000000 ]
verdict $? "endless lines end"
! grep -oE '[ \t"](src|href|action|data|srcset|background)="[^"]*"' "$page" | grep -qvE '="(data:image/svg\+xml;base64,|#)'
verdict $? "nothing is loaded from elsewhere"
! sed -n '/<style>/,/<\/style>/p' "$page" | grep -qE '@import|url\('
verdict $? "nor by the style"

if command -v python3 >/dev/null; then
    python3 - "$page" <<'END'
import html.parser, sys, xml.etree.ElementTree as tree
text = open(sys.argv[1], encoding="utf-8").read()
tree.fromstring(text)
ours = set("html head meta title style body main h1 h2 h3 h4 p b small code pre br span a dl div dt dd table caption thead tbody tr th td "
           "section details summary ul li figure figcaption img svg rect".split())
attributes = set("lang charset http-equiv content name id class href scope viewBox preserveAspectRatio aria-hidden x width height "
                 "tabindex alt src".split())
class Page(html.parser.HTMLParser):
    open, ids, links, headings = [], [], [], []
    def handle_starttag(self, tag, given):
        assert tag in ours, tag
        assert {a.lower() for a, _ in given} <= {a.lower() for a in attributes}, (tag, given)
        given = dict(given)
        if "id" in given: self.ids.append(given["id"])
        if "href" in given: self.links.append(given["href"])
        assert tag != "img" or given.get("alt"), "a picture without words"
        assert tag != "th" or given.get("scope"), "a heading of a table without a scope"
        if tag in ("h1", "h2", "h3", "h4"): self.headings.append(int(tag[1]))
        if tag not in ("meta", "br", "img", "rect"): self.open.append(tag)
    def handle_startendtag(self, tag, given):
        self.handle_starttag(tag, given)
    def handle_endtag(self, tag):
        if tag not in ("meta", "br", "img", "rect"): assert self.open.pop() == tag, tag
page = Page()
page.feed(text)
page.close()
assert not page.open, page.open
assert len(page.ids) == len(set(page.ids)), "an id twice"
assert all(link[0] == "#" and link[1:] in page.ids for link in page.links), "a link to nowhere"
assert page.headings[0] == 1 and all(b <= a + 1 for a, b in zip(page.headings, page.headings[1:])), "a level of headings left out"
END
    verdict $? "well-formed, as XML and as HTML, of our own elements and attributes alone"
else
    echo "not run: the markup, there is no python3"
fi

# --------------------------------------------------------------------------------------------------------- the command line
script() { MAKE=${MAKE:-make} workbook/score/report.sh "${BACKEND:-cpu}" report_test "$@"; }
said=$(script 2>&1)
[ $? -eq 2 ] && [ "$(echo "$said" | wc -l)" -eq 1 ] && echo "$said" | grep -q 'run make test IMPL=report_test first'
verdict $? "without records it says what to run"
mkdir -p "$out/report_test/grade"
echo "not started" >"$out/report_test/grade/01.state"
script >/dev/null && script >/dev/null && grep -q "^<p id=\"score\">Score: 0/$required " "$out/report_test/report.html"
verdict $? "a page is made, and made again"
echo "my own" >"$scratch/mine"
! script "$scratch/mine" >/dev/null 2>&1 && [ "$(cat "$scratch/mine")" = "my own" ]
verdict $? "a file that is no such page stays as it is"
script "$scratch/other.html" >/dev/null && grep -q 'IMPL=report_test</code>' "$scratch/other.html"
verdict $? "another file, and commands with IMPL"
! script "$scratch/none/page.html" >/dev/null 2>&1
verdict $? "a folder that is not there"

# -------------------------------------------------------------------------------------------------------------- a browser
browser=${WB_BROWSER:-}
for candidate in chromium chromium-browser google-chrome; do
    [ -n "$browser" ] || ! command -v $candidate >/dev/null || browser=$candidate
done
if [ -z "$browser" ]; then
    echo "not run: the browser's part, there is no chromium (WB_BROWSER=PROGRAM names another)"
    exit $failed
fi
browse() { # FILE: as the browser has understood it; what it complains about goes to $scratch/errors
    "$out/within" 60 "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$scratch/profile" --enable-logging=stderr \
        --window-size=1400,900 --virtual-time-budget=2000 --dump-dom "file://$1" >"$scratch/shown.html" 2>"$scratch/errors"
}
browse "$page"
verdict $? "$browser shows the page"
grep -qF "$sum" "$scratch/shown.html"
verdict $? "with the score"
! grep 'CONSOLE' "$scratch/errors"
verdict $? "and without a complaint"

# The same page in a frame, with a probe that the page's own policy would not let run: all unfolded, how wide is it, and did all
# pictures arrive?
sed -e '/^<meta http-equiv="Content-Security-Policy"/d' -e '/<\/body>/d' -e '/<\/html>/d' "$page" >"$scratch/probe.html"
cat >>"$scratch/probe.html" <<'END'
<script>
window.onload = function () {
    document.querySelectorAll("details").forEach(function (d) { d.open = true })
    var pictures = Array.from(document.images), there = pictures.filter(function (i) { return i.complete && i.naturalWidth > 0 })
    parent.postMessage("width " + innerWidth + ", content " + document.documentElement.scrollWidth + ", pictures " + there.length +
        " of " + pictures.length + ", scripts " + document.scripts.length, "*")
}
</script></body></html>
END
pictures=$(grep -c '<figure' "$page")
for width in 380 1200; do
    echo "<body><script>onmessage = function (e) { document.body.setAttribute('probe', e.data) }</script>" \
        "<iframe src=probe.html width=$width height=800 style='border: 0'></iframe></body>" >"$scratch/frame.html"
    browse "$scratch/frame.html"
    probe=$(sed -n 's/.*<body probe="\([^"]*\)".*/\1/p' "$scratch/shown.html")
    [ "$probe" = "width $width, content $width, pictures $pictures of $pictures, scripts 1" ]
    verdict $? "nothing juts out at $width pixels, all pictures are there: $probe"
done
exit $failed
