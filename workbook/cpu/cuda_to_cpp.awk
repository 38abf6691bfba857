# cuda_to_cpp.awk - CUDA C++ to C++ for the CPU execution layer. POSIX awk: mawk, gawk, busybox and the one true awk.
#
#     awk [-v object=file.o -v makes=file.cu.d] -f cuda_to_cpp.awk file.cu > file.cpp
#
# Three things of CUDA are not C++, and only these are rewritten, outside comments and strings:
#     kernel<64><<<grid, 128>>>(x, n)     -> ::cudacpu::launch(...), see include/cudacpu/launch.h
#     __shared__ float x[4][N], y;        -> references to the block's copies
#     asm volatile("...")                 -> CUDACPU_NO_PTX(), an error with a sentence
# In a file that includes hopper.cuh or e4m3.cuh, so that reports can name what lies in dynamic shared memory
# (include/cudacpu/hopper.h):
#     struct tiles { int a, b[2]; };      -> the same with a member function that visits "a" and "b"
#     reinterpret_cast<tiles *>(shared)   -> ::cudacpu::shared_as<tiles>(shared), if shared is dynamic shared memory
# What #include "other.cu" at the start of a line names is read in its place, for it must pass through here, too; in
# `makes` make is told that the object is made of it.
# Every line keeps its number, so that the compiler's messages name the student's file and line. What the filter does
# not understand it leaves alone. The result goes into the file `made`, or to standard output.

BEGIN { out = made ? made : "/dev/stdout"; if (makes) printf "" > makes }

{
    if (NR == 1) sub(/^\357\273\277/, "")  # a byte order mark
    sub(/\r$/, "")
    gsub(/\r/, "\n")  # lines that end with CR LF, or with CR alone
    source = source (is_include($0) ? text_of($0, FILENAME, NR) : $0) "\n"
}

END {
    name = FILENAME
    gsub(/["\\]/, "\\\\&", name)
    printf "#line 1 \"%s\"\n", name > out

    code = blank(source)  # source without comments and strings, equally long: found there, cut out of source
    done = 0              # characters of source that are dealt with
    begin = "(((extern|static|volatile)[ \t\n]+)*__shared__|<<<|" \
        "(asm|__asm__|__asm)[ \t\n]*((volatile|__volatile__)[ \t\n]*)?[(])"
    if (source ~ /#include "(hopper|e4m3)[.]cuh"/)
        begin = begin "|(\n|[>] *)struct [A-Za-z0-9_]+ *[{]|reinterpret_cast<[^()]*[*]>[(][A-Za-z0-9_]+[)]"
    while (match(substr(code, done + 1), begin)) {
        at = done + RSTART
        word = substr(code, at, RLENGTH)
        inside_name = substr(code, at - 1, 1) ~ /[A-Za-z0-9_]/ || substr(code, at + length(word), 1) ~ /[A-Za-z0-9_]/
        if (word == "<<<") ok = launch(at)
        else if (word ~ /struct/) ok = structure(at + length(word) - 1)
        else if (word ~ /^reinterpret_cast/) ok = cast(at, word)
        else if (word ~ /__shared__$/) ok = !inside_name && shared(at, word)
        else ok = substr(code, at - 1, 1) !~ /[A-Za-z0-9_]/ && assembly(at + length(word) - 1, at)
        if (!ok) copy_up_to(at + length(word))
    }
    printf "%s", substr(source, done + 1) > out
}

# What the line of `file`, an #include, names; in there, too.
function text_of(line, file, number,    path, text, inner)
{
    path = line
    sub(/^#include "/, "", path)
    sub(/".*/, "", path)
    if (match(file, /.*\//)) path = substr(file, 1, RLENGTH) path
    text = "#line 1 \"" path "\"\n"
    if (makes) print object ": " path "\n" path ":" > makes
    if ((getline line < path) <= 0) return "#error there is no " path
    inner = 0
    do {
        sub(/\r$/, "", line)
        inner++
        text = text (is_include(line) ? text_of(line, path, inner) : line) "\n"
    } while ((getline line < path) > 0)
    close(path)
    return text "#line " number + 1 " \"" file "\""
}
function is_include(line) { return line ~ /^#include "[^"]*[.]cu"/ }

# Prints source up to, not including, position `to`.
function copy_up_to(to)
{
    printf "%s", substr(source, done + 1, to - done - 1) > out
    done = to - 1
}

# Prints `text` in the place of source from position `at` to `last`, and that part's newlines after it.
function replace(at, last, text)
{
    copy_up_to(at)
    printf "%s%s", text, newlines(substr(source, done + 1, last - done)) > out
    done = last
}

# The newlines of a text; those that continue a macro keep their backslash.
function newlines(text,    result)
{
    result = ""
    while (match(text, /\\?\n/)) {
        result = result substr(text, RSTART, RLENGTH)
        text = substr(text, RSTART + RLENGTH)
    }
    return result
}

# ------------------------ reading C++

# The text with spaces for everything in comments, strings and character constants. Newlines stay.
function blank(text,    result, two, last, delimiter)
{
    result = ""
    while (match(text, /\/\/|\/\*|["']/)) {
        result = result substr(text, 1, RSTART - 1)
        before = RSTART > 1 ? substr(text, RSTART - 1, 1) : substr(result, length(result))
        text = substr(text, RSTART)
        two = substr(text, 1, 2)
        if (two == "//") {
            last = index(text, "\n") - 1
        } else if (two == "/*") {
            last = index(substr(text, 3), "*/") + 3
            if (last == 3) last = length(text)
        } else if (two ~ /^'/ && before ~ /[0-9a-fA-F]/ && two ~ /[0-9a-fA-F]$/) {
            last = 1  # 1'000'000
        } else if (two ~ /^"/ && before == "R" && match(text, /^"[^( ]*[(]/)) {
            delimiter = ")" substr(text, 2, RLENGTH - 2) "\""  # R"x( ... )x"
            last = index(text, delimiter) + length(delimiter) - 1
        } else {
            last = 2
            while (last < length(text) && substr(text, last, 1) != substr(two, 1, 1) && substr(text, last, 1) != "\n")
                last += substr(text, last, 1) == "\\" ? 2 : 1
        }
        result = result spaces(substr(text, 1, last))
        text = substr(text, last + 1)
    }
    return result text
}

function spaces(text)
{
    gsub(/[^\n]/, " ", text)
    return text
}

function is_space(at) { return substr(code, at, 1) ~ /[ \t\n\\]/ }

# The position of the bracket that belongs to the one at `at`, ahead (step 1) or behind (-1); 0 if there is none.
function partner(at, step,    depth, char)
{
    for (depth = 0; at > 0 && at <= length(code); at += step) {
        char = substr(code, at, 1)
        if (index(step > 0 ? "({[" : ")}]", char)) depth++
        else if (index(step > 0 ? ")}]" : "({[", char) && --depth == 0) return at
        else if (step < 0 && char ~ /[;{}]/) return 0
    }
    return 0
}

# Where the template arguments that end with the ">" at `at` begin, backwards.
function opening_angle(at,    depth, char)
{
    for (depth = 0; at > 0; at--) {
        char = substr(code, at, 1)
        if (char ~ /[])]/) at = partner(at, -1)
        else if (char == ">" && substr(code, at - 1, 1) != "-") depth++
        else if (char == "<" && --depth == 0) return at
        else if (char ~ /[;{}(]/) return 0
        if (at == 0) return 0
    }
    return 0
}

# ------------------------ kernel<<<>>>()

# The launch whose "<<<" is at `at`. Returns 0 if it is none.
function launch(at,    first, last, end_config, open, end, kernel, config, taken)
{
    first = callee(at)
    end_config = end_of_config(at + 3)
    if (first <= done || !end_config) return 0
    open = end_config + 3
    while (is_space(open)) open++
    end = partner(open, 1)
    if (substr(code, open, 1) != "(" || !end) return 0

    last = at - 1
    while (is_space(last)) last--
    kernel = substr(code, first, last - first + 1)
    config = substr(source, at + 3, end_config - at - 3)
    taken = split_arguments(open, end)  # else the arguments stand where they stood
    copy_up_to(first)
    printf "::cudacpu::launch%s(CUDACPU_KERNEL(%s),%s ::cudacpu::launch_config(%s),%s [=%s { %s(%s); })",
        taken ? "" : "_later", kernel, newlines(substr(source, last + 1, at - last)), config,
        taken ? newlines(substr(source, end_config, open - end_config)) : "",
        taken ? captures "]" : "](auto... cudacpu_arguments)", one_line(kernel),
        taken ? passed : "cudacpu_arguments..." > out
    done = taken ? end : end_config + 2
    return 1
}

function one_line(text)
{
    gsub(/[\\\n]/, " ", text)
    return text
}

# Where the name of the kernel before "<<<" begins: space::name<arguments>, (expression) or table[index]. 0 if nothing
# is like that.
function callee(at)
{
    at--
    while (is_space(at)) at--
    if (substr(code, at, 1) == ")") return partner(at, -1)
    if (substr(code, at, 1) == ">") at = opening_angle(at) - 1
    while (substr(code, at, 1) == "]") at = partner(at, -1) - 1
    while (at > 0 && is_space(at)) at--
    if (substr(code, at, 1) !~ /[A-Za-z0-9_]/) return 0
    while (at > 0 && substr(code, at, 1) ~ /[A-Za-z0-9_:.]/) at--
    return at + 1
}

# The ">>>" that ends a configuration which begins at `at`; 0 if a statement ends first.
function end_of_config(at,    char)
{
    for (; at <= length(code); at++) {
        char = substr(code, at, 1)
        if (char ~ /[({[]/) {
            at = partner(at, 1)
            if (!at) return 0
        } else if (char ~ /[])};]/) return 0
        else if (substr(code, at, 3) == ">>>") return at
    }
    return 0
}

# Sets `captures` and `passed` for the arguments between two brackets. Each argument is evaluated once, by the
# launching thread, and captured by value; a constant is passed as it stands, since 0 may mean a null pointer. Returns
# 0 if commas may not separate arguments.
function split_arguments(open, end,    inside, text, part, count, i, kept)
{
    inside = substr(code, open + 1, end - open - 1)
    if ((inside ~ /</ && inside ~ />/) || inside ~ /[.][.][.]/ || inside ~ /#/) return 0
    captures = passed = ""
    kept = 0
    count = split_list(inside, part, "[({[]", "[])}]")
    for (i = 1; i <= count; i++) {
        inside = part[i]
        text = substr(source, open + 1, length(inside))
        open += length(inside) + 1
        sub(/^ +/, "", text)
        if (inside !~ /[^ \t\n\\]/ && text !~ /["']/) {  # nothing but space and comments
            captures = captures newlines(text)
            continue
        }
        if (passed != "") passed = passed ", "
        if (inside ~ /^[ \t\n\\]*([0-9][0-9a-zA-Z.]*|NULL|nullptr|true|false|[{].*)[ \t\n\\]*$/) {
            passed = passed trim(one_line(text ~ /[{]/ ? text : inside))
            captures = captures newlines(text)
        } else {
            captures = captures ", cudacpu_" kept " = (" text ")"
            passed = passed "cudacpu_" kept++
        }
    }
    return 1
}

# ------------------------ __shared__

# The declaration whose words "extern __shared__", or the like, are at `at`. Returns 0 if it is not understood.
function shared(at, word,    length_, text, result)
{
    length_ = index(substr(code, at), ";")
    if (!length_) return 0
    text = substr(code, at + length(word), length_ - length(word) - 1)
    gsub(/[\n\t\\]/, " ", text)
    result = declare(text, word ~ /extern/, word ~ /volatile/)
    if (result == "") return 0
    replace(at, at + length_ - 1, result)
    return 1
}

# The C++ for "type a[2], b" with alignas(16) or __align__(16) anywhere in it; "" if it is not understood.
function declare(text, dynamic, volatile,    align, count, part, i, type, variable, dims, result)
{
    align = ""
    while (match(text, /(__align__|alignas)[ ]*[(][^()]*([(][^()]*[)][^()]*)*[)]/)) {
        align = align substr(text, RSTART, RLENGTH) " "
        text = substr(text, 1, RSTART - 1) " " substr(text, RSTART + RLENGTH)
    }
    if (text ~ /[{}=#]/) return ""
    count = split_list(text, part, "[(<[]", "[])>]")
    result = ""
    for (i = 1; i <= count; i++) {
        part[i] = trim(part[i])
        if (!match(part[i], /[A-Za-z_][A-Za-z0-9_]*[ ]*(\[.*)?$/)) return ""
        variable = dims = substr(part[i], RSTART)
        text = trim(substr(part[i], 1, RSTART - 1))
        sub(/ *(\[.*)?$/, "", variable)
        dims = trim(substr(dims, length(variable) + 1))
        if (i == 1) type = text
        else if (text != "") return ""
        if (type == "" || type ~ /&$/ || dims ~ />[^]]*$/) return ""
        if (count > 1 && type ~ /\*$/) return ""
        result = result (dynamic ? dynamic_variable(variable, type, volatile) : \
            static_variable(variable, type, dims, align, volatile))
    }
    return result
}

# Splits at commas outside of brackets.
function split_list(text, part, opens, closes,    count, at, char, depth)
{
    count = 1
    part[1] = ""
    depth = 0
    for (at = 1; at <= length(text); at++) {
        char = substr(text, at, 1)
        if (char ~ opens) depth++
        else if (char ~ closes) depth--
        if (char == "," && depth == 0) part[++count] = ""
        else part[count] = part[count] char
    }
    return count
}

function trim(text)
{
    gsub(/^ +| +$/, "", text)
    return text
}

function static_variable(variable, type, dims, align, volatile,    reference, pointer)
{
    if (volatile) type = "volatile " type
    reference = dims == "" ? type " &" variable : type " (&" variable ")" dims
    pointer = dims == "" ? type " *" : type " (*)" dims
    return "struct cudacpu_align_" variable " { " align "alignas(" type ") char at; }; " \
        "static constexpr ::cudacpu::shared_variable cudacpu_shared_" variable " = {\"" variable \
        "\", sizeof(" type dims "), sizeof(" type ")," \
        " sizeof(::std::remove_extent_t<" type dims ">), alignof(cudacpu_align_" variable \
        "), {__FILE__, __LINE__}}; [[maybe_unused]] " reference \
        " = *static_cast<" pointer ">(::cudacpu::shared_address(cudacpu_shared_" variable ")); "
}

function dynamic_variable(variable, type, volatile)
{
    if (volatile) type = "volatile " type
    dynamic_names[variable] = 1
    return "CUDACPU_SHARED_IN_FUNCTION(); [[maybe_unused]] " type " *const " variable " = static_cast<" type \
        " *>(::cudacpu::dynamic_shared(\"" variable "\", sizeof(" type "), ::cudacpu::here()));"
}

# ------------------------ names in dynamic shared memory

# The struct whose "{" is at `open`.
function structure(open,    end, text, part, count, i, names)
{
    end = partner(open, 1)
    text = substr(code, open + 1, end - open - 1)
    if (!end || text ~ /#/) return 0
    # without the bodies of functions
    while (match(text, /[{][^{}]*[}]/)) text = substr(text, 1, RSTART - 1) ";" substr(text, RSTART + RLENGTH)
    count = split(text, part, ";")
    for (i = 1; i <= count; i++)
        if (part[i] !~ /[(){}=]|(static|using|typedef|template|friend|union)[^A-Za-z0-9_]/)
            names = names members(part[i])
    if (names == "") return 0
    copy_up_to(end)
    printf "template <class F_> void cudacpu_members(F_ f_) { %s} ", names > out
    return 1
}

# The visits of what "int a, b[2]" declares.
function members(text,    part, count, i, result)
{
    gsub(/[ \n]+/, " ", text)
    result = ""
    count = split_list(text, part, "[(<[]", "[])>]")
    for (i = 1; i <= count; i++) {
        sub(/ *(\[.*)?$/, "", part[i])
        if (part[i] ~ /[:&]/ || !match(part[i], /[A-Za-z_][A-Za-z0-9_]*$/)) continue
        result = result "f_(\"" substr(part[i], RSTART) "\", " substr(part[i], RSTART) "); "
    }
    return result
}

function cast(at, word,    name, type)
{
    name = type = word
    sub(/.*[(]/, "", name)
    sub(/[)]$/, "", name)
    if (!(name in dynamic_names)) return 0
    sub(/^reinterpret_cast</, "", type)
    sub(/ *[*]>[(][A-Za-z0-9_]+[)]$/, "", type)
    replace(at, at + length(word) - 1, "::cudacpu::shared_as<" type ">(" name ")")
    return 1
}

# ------------------------ asm

# asm(...) whose "(" is at `open`.
function assembly(open, at,    end)
{
    end = partner(open, 1)
    if (!end) return 0
    replace(at, end, "CUDACPU_NO_PTX()")
    return 1
}
