# Makes the C table of findings of findings.txt, whose head describes the format:
#
#     awk -f findings.awk findings.txt > findings.c
#
# Text that is not of that format ends it with exit status 1 and `FILE:LINE: message`.

BEGIN {
    n_fields = split("code severity place cause remedy decide reference example explanation", fields)
    for (i = 1; i <= n_fields; i++) {
        known[fields[i]] = 1
    }
    values["severity"] = " error warning info "
    values["place"] = " cable end ports host peer "
    print "/* Made of src/diag/findings.txt by src/diag/findings.awk. */"
    print "#include \"diag/catalogue.h\"\n"
    print "const struct diag_entry diag_entries[DIAG_N_CODES] = {"
}

/^#/ { next }

/^[ \t]*$/ {
    paragraph = 1
    next
}

/^  [^ ]/ {
    if (field == "") {
        refuse("continues no field")
    }
    add(substr($0, 3))
    next
}

/^[a-z]+:( [^ ].*)?$/ {
    colon = index($0, ":")
    field = substr($0, 1, colon - 1)
    if (!(field in known)) {
        refuse("unknown field '" field "'")
    }
    if (field == "code") {
        finish()
    } else if (!("code" in entry)) {
        refuse("an entry begins with 'code:'")
    }
    if (field in entry) {
        refuse("'" field "' twice in one entry")
    }
    entry[field] = ""
    line[field] = FNR
    paragraph = 0
    if (length($0) > colon) {
        add(substr($0, colon + 2))
    }
    next
}

{ refuse("expected 'field: text', or two blanks and text") }

END {
    if (!failed) {
        finish()
        print "};\n"
        printf "%s", asserts
        printf "_Static_assert(DIAG_N_CODES == %d, \"%s: a code of enum diag_code has no entry\");\n", n, FILENAME
    }
    exit failed
}

function refuse(text) { refuse_at(FNR, text) }

function refuse_at(number, text)
{
    printf "%s:%d: %s\n", FILENAME, number, text | "cat 1>&2"
    close("cat 1>&2")
    failed = 1
    exit 1
}

# Joins `text` to the field that is being read.
function add(text)
{
    if (text ~ /[ \t]$/ || text ~ /  / || text ~ /\t/) {
        refuse("blanks at the end, two blanks or a tab")
    }
    if (entry[field] != "") {
        entry[field] = entry[field] (paragraph ? "\n\n" : " ")
    }
    entry[field] = entry[field] text
    paragraph = 0
}

# Returns `text` as a C string.
function quoted(text,    i, c, out)
{
    for (i = 1; i <= length(text); i++) {
        c = substr(text, i, 1)
        out = out (c == "\n" ? "\\n" : c == "\"" || c == "\\" ? "\\" c : c)
    }
    return "\"" out "\""
}

function enumerator(prefix, text)
{
    gsub(/\./, "_", text)
    return prefix toupper(text)
}

# Prints the entry that was read, if there is one, and forgets it.
function finish(    i, name, id, text)
{
    if (!("code" in entry)) {
        return
    }
    if (!("place" in entry)) {
        entry["place"] = "cable"
        line["place"] = line["code"]
    }
    id = enumerator("DIAG_", entry["code"])
    text = "    [" id "] = {\n     .id = " id
    for (i = 1; i <= n_fields; i++) {
        name = fields[i]
        if (!(name in entry) && name == "example") {
            continue
        }
        if (!(name in entry)) {
            refuse_at(line["code"], entry["code"] ": '" name "' is missing")
        }
        if (entry[name] == "") {
            refuse_at(line[name], "'" name "' is empty")
        }
        if (name in values && index(values[name], " " entry[name] " ") == 0) {
            refuse_at(line[name], "expected one of" values[name] "got '" entry[name] "'")
        }
        if (name == "severity") {
            text = text ",\n     .severity = " enumerator("DIAG_", entry[name])
        } else if (name == "place") {
            text = text ",\n     .place = " enumerator("DIAG_AT_", entry[name])
        } else {
            text = text ",\n     ." name " = " quoted(entry[name])
        }
    }
    print text "},"
    asserts = asserts "_Static_assert(" id " == " n++ ", \"" FILENAME ":" line["code"] ": " entry["code"] \
        " is not where enum diag_code has it\");\n"
    split("", entry)
}
