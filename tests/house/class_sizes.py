"""How large the engine's classes are: a class that needs more than these members or methods has a second noun in it.

Reads declarations by their brackets; no preprocessor, and no meaning. Good enough for this house's own style: one
declaration ends with a semicolon or with the body of a function.
"""
import re

MEMBERS_MAX = 25
METHODS_MAX = 40  # constructors and the destructor among them, but not what is deleted

NO_DECLARATION = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])+\'|^[ \t]*#[^\n]*|'
                            r'\[\[[^\]]*\]\]|\balignas\s*\([^()]*\)', re.S | re.M)
CLASS = re.compile(r'\bclass\s+(\w+)\s*(?:final\s*)?(?::[^{};()]*)?\{')
NO_MEMBER = re.compile(r'using\b|typedef\b|friend\b|static_assert\b|(?:class|struct|union|enum)\s+\w+$|'
                       r'(?:static\s+(?:inline\s+)?constexpr|constexpr\s+static)\b')
CLOSES = {"(": ")", "{": "}", "[": "]"}


def end_of(text, begin):
    """Behind the bracket that closes the one at `begin`."""
    depth, opens = 0, text[begin]
    for at in range(begin, len(text)):
        depth += (text[at] == opens) - (text[at] == CLOSES[opens])
        if depth == 0:
            return at + 1
    return len(text)


def without_templates(text):
    before = None
    while before != text:
        before, text = text, re.sub(r"<[^<>]*>", "", text)
    return text


def is_function(declaration):
    plain = without_templates(declaration.replace("->", ""))
    if "operator" in plain:
        return True
    return "(" in plain.split("=")[0]


def declarations(body):
    """Each one of a class' body, with its own bodies and initialisers left out."""
    at, said = 0, ""
    while at < len(body):
        letter = body[at]
        if letter == ";":
            yield said.strip()
            at, said = at + 1, ""
        elif letter in "([":
            end = end_of(body, at)
            said += "()" if letter == "(" else body[at:end]
            at = end
        elif letter == "{":
            at = end_of(body, at)
            follows = body[at:].lstrip()[:1]
            initialises = re.search(r"\)[^:()]*:[^:]", said + " ") and follows in (",", "{")
            if is_function(said) and not initialises:
                yield said.strip()
                said = ""
            else:
                said += "{}"
        else:
            said += letter
            label = re.search(r"(?:public|private|protected)\s*:$", said)
            if label and body[at + 1:at + 2] != ":":
                said = ""
            at += 1


def members_and_methods(body):
    members = methods = 0
    for said in declarations(body):
        if not said or NO_MEMBER.match(said):
            continue
        if is_function(said):
            methods += "= delete" not in said
        elif not re.match(r"(?:class|struct|union|enum)\b.*\}$", said, re.S):
            members += 1 + without_templates(said).count(",")
    return members, methods


def classes(text):
    text = NO_DECLARATION.sub("", text)
    for head in CLASS.finditer(text):
        if not re.search(r"\benum\s+$", text[:head.start()]):
            yield head[1], *members_and_methods(text[head.end():end_of(text, head.end() - 1) - 1])


def too_large(root, headers):
    for header in headers:
        for name, members, methods in classes(header.read_text()):
            if members > MEMBERS_MAX or methods > METHODS_MAX:
                yield (f"{header.relative_to(root)}: {name} has {members} members and {methods} methods; "
                       f"{MEMBERS_MAX} and {METHODS_MAX} are the most")
