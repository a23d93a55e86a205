# Reads lines of JSON, {"rules": [...], "values": [...]}, and writes for each line what each value of the key "k" matches:
# the index of the rule, or -1, and what the counter is named after. Slow and simple: it tries every rule of the level.
import ipaddress
import json
import re
import sys

import re2


def to_address(text):
    if '%' in text:
        return None  # Python accepts zones.
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(address, 'ipv4_mapped', None) or address


def rank(rule, value, address):
    """Returns the precedence of the rule and the length of its pattern, or None if it does not match."""
    name = '_'.join(filter(None, [rule['key'], rule['value']]))
    kind, want = next(iter(rule.get('match', {'value': rule['value']}).items()))
    if kind == 'value' and '*' in name:
        return (2, 0) if re.fullmatch('.*'.join(map(re.escape, name.split('*'))), f'k_{value}', re.DOTALL) else None
    if kind == 'value' and (want == '' or want == value):
        return (1, 0) if want == '' else (9, 0)
    if kind == 'exact' and want == value or kind == 'oneOf' and value in want:
        return (8 if kind == 'exact' else 7, 0)
    if kind == 'cidr' and address is not None:
        networks = [n for n in map(ipaddress.ip_network, want) if n.version == address.version and address in n]
        return (6, max(n.prefixlen for n in networks)) if networks else None
    if kind == 'prefix' and value.startswith(want) or kind == 'suffix' and value.endswith(want):
        return (5 if kind == 'prefix' else 4, len(want))
    return (3, 0) if kind == 'regex' and re2.fullmatch(want, value) else None


def find(rules, value):
    address = to_address(value)
    ranks = [(*found, -i) for i, rule in enumerate(rules) if (found := rank(rule, value, address))]
    if not ranks:
        return [-1, '']
    index = -max(ranks)[2]
    rule = rules[index]
    if rule.get('shareThreshold'):
        name = '_'.join(filter(None, [rule['key'], rule['value']]))
        return [index, f"match:{rule['value']}" if 'match' in rule else name.removeprefix('k_')]
    if 'groupBy' in rule and address is not None:
        length = rule['groupBy'].get(f'ipv{address.version}Prefix', address.max_prefixlen)
        return [index, str(ipaddress.ip_network((address, length), strict=False))]
    return [index, value]


for line in sys.stdin:
    task = json.loads(line)
    print(json.dumps([find(task['rules'], value) for value in task['values']]), flush=True)
