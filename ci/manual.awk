# Markdown, as docs/ has it, to the man macros of roff(7). With -v section="## Title" only that
# section, without its heading; with -v level=N a heading of N marks becomes a section, and deeper
# ones subsections.

function inline(text,    out, parts, n, i)
{
    gsub(/<[a-z\/!][^>]*>/, "", text)
    gsub(/\\\|/, "|", text)
    gsub(/\\/, "\\e", text)
    while (match(text, /\[[^]]*\]\([^)]*\)/)) {
        out = substr(text, RSTART + 1, RLENGTH - 1)
        sub(/\]\(.*$/, "", out)
        text = substr(text, 1, RSTART - 1) out substr(text, RSTART + RLENGTH)
    }
    n = split(text, parts, "`")
    out = ""
    for (i = 1; i <= n; i++) {
        if (i % 2 == 0) {
            gsub(/-/, "\\-", parts[i])
            out = out "\\fB" parts[i] "\\fR"
        } else {
            while (match(parts[i], /\*\*[^*]+\*\*/)) {
                parts[i] = substr(parts[i], 1, RSTART - 1) "\\fB" \
                    substr(parts[i], RSTART + 2, RLENGTH - 4) "\\fR" \
                    substr(parts[i], RSTART + RLENGTH)
            }
            gsub(/--/, "\\-\\-", parts[i])
            out = out parts[i]
        }
    }
    return out
}

# A line of text must not look like a request.
function put(text)
{
    print (text ~ /^[.']/ ? "\\&" : "") text
}

function literal(text)
{
    gsub(/\\/, "\\e", text)
    gsub(/-/, "\\-", text)
    put(text)
}

function end_literal()
{
    if (is_literal) {
        print ".fi\n.RE"
        is_literal = 0
    }
}

# A row of a table: the first cell is the tag, the last the text, those between are named.
function row(line,    cells, n, i, text)
{
    gsub(/\\\|/, "\001", line)
    n = split(line, cells, "|")
    for (i = 2; i < n; i++) {
        gsub(/^ +| +$/, "", cells[i])
        gsub(/\001/, "|", cells[i])
    }
    if (line ~ /^\|[-| :]+\|$/) {
        return
    }
    if (!in_table) {
        in_table = 1
        for (i = 2; i < n; i++) {
            heads[i] = cells[i]
        }
        print ".PP"
        return
    }
    for (i = 3; i < n; i++) {
        if (cells[i] == "") {
            continue
        }
        text = text (text == "" ? "" : "; ") (i < n - 1 && heads[i] != "" ? heads[i] ": " : "") \
            inline(cells[i])
    }
    print ".TP"
    put(inline(cells[2]))
    put(text == "" ? "\\&" : text)
}

BEGIN {
    is_on = section == ""
    if (level == "") {
        level = 2
    }
}
section != "" && index($0, "#") == 1 && !in_fence {
    match($0, /^#+/)
    if (is_on && RLENGTH <= depth) {
        is_on = 0
    }
    if ($0 == section) {
        is_on = 1
        depth = RLENGTH
        next
    }
}
!is_on { next }
/^```/ {
    in_fence = !in_fence
    if (in_fence) {
        print ".PP\n.RS 4\n.nf"
    } else {
        print ".fi\n.RE"
    }
    next
}
in_fence { literal($0); next }
/^<!--.*-->$/ || /^<a id=/ { next }
/^    / && (is_literal || was_blank) && !in_item {
    if (!is_literal) {
        print ".PP\n.RS 4\n.nf"
        is_literal = 1
    }
    literal(substr($0, 5))
    was_blank = 0
    next
}
/^$/ {
    end_literal()
    in_table = 0
    in_item = 0
    was_blank = 1
    next
}
{ end_literal() }
/^#/ {
    match($0, /^#+/)
    title = substr($0, RLENGTH + 2)
    gsub(/`/, "", title)
    if (RLENGTH < level) {
        next
    }
    gsub(/\\/, "\\e", title)
    gsub(/"/, "", title)
    print (RLENGTH == level ? ".SH \"" toupper(title) "\"" : ".SS \"" title "\"")
    was_blank = 1
    next
}
/^\|/ { row($0); was_blank = 0; next }
/^(- |\* )/ {
    print ".IP \\(bu 2"
    put(inline(substr($0, 3)))
    in_item = 1
    was_blank = 0
    next
}
/^[0-9]+\. / {
    match($0, /^[0-9]+\./)
    print ".IP " substr($0, 1, RLENGTH) " 4"
    put(inline(substr($0, RLENGTH + 2)))
    in_item = 1
    was_blank = 0
    next
}
{
    if (was_blank && !in_item) {
        print ".PP"
    }
    sub(/^ +/, "")
    put(inline($0))
    was_blank = 0
}
END { end_literal() }
