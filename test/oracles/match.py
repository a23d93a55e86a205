# Reads lines of JSON, {"rules": [...], "values": [...]}, and writes for each line the index of the rule that each value
# matches, or -1. The rules are those of one key on one level. Slow and simple: it tries every rule.
import ipaddress
import json
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


def contains(network, address):
    return address is not None and address.version == network.version and address in network


def find(rules, value):
    exact = [i for i, rule in enumerate(rules) if not rule.get('match') and rule['value'] == value != '']
    exact += [i for i, rule in enumerate(rules) if rule.get('match', {}).get('exact') == value]
    exact += [i for i, rule in enumerate(rules) if value in rule.get('match', {}).get('oneOf', [])]
    if exact:
        return exact[0]
    address = to_address(value)
    longest = []
    for i, rule in enumerate(rules):
        match = rule.get('match', {})
        for network in map(ipaddress.ip_network, match.get('cidr', [])):
            if contains(network, address):
                longest.append((3, network.prefixlen, i))
        if 'prefix' in match and value.startswith(match['prefix']):
            longest.append((2, len(match['prefix']), i))
        if 'suffix' in match and value.endswith(match['suffix']):
            longest.append((1, len(match['suffix']), i))
    if longest:
        return max(longest)[2]
    for i, rule in enumerate(rules):
        regex = rule.get('match', {}).get('regex')
        if regex is not None and re2.fullmatch(regex, value):
            return i
    return next((i for i, rule in enumerate(rules) if not rule.get('match') and rule['value'] == ''), -1)


for line in sys.stdin:
    task = json.loads(line)
    print(json.dumps([find(task['rules'], value) for value in task['values']]), flush=True)
