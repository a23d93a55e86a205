import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sanitizeStatName } from './names.ts'
import { splitLines } from './testing/rules-of-yaml.ts'

const names = `
domain.foo|bar                           -> domain.foo_bar
domain.foo:bar                           -> domain.foo_bar
domain.masked_remote_address_0.0.0.0/0   -> domain.masked_remote_address_0_0_0_0/0
domain.remote_address_172.18.0.1         -> domain.remote_address_172_18_0_1
domain.net_10.0.0.0/8_host_10.1.2.3:80   -> domain.net_10_0_0_0/8_host_10_1_2_3_80
domain.version_1.2.3                     -> domain.version_1.2.3
domain.path_/a.b                         -> domain.path_/a.b
`

test('names of statistics have no colon, no bar, and no dots inside an IPv4 address', () => {
  for (const line of splitLines(names)) {
    const [name = '', expected] = line.split('->').map(part => part.trim())
    assert.equal(sanitizeStatName(name), expected)
  }
})
