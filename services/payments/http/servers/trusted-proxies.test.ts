import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { systemClock } from '@tollway/chassis/clock.ts'
import { createLog } from '@tollway/chassis/log/log.ts'
import { cidrs } from '@tollway/chassis/net/cidr.ts'
import { createJsonServer } from './server.ts'

/** Columns: TRUSTED_PROXIES, X-Forwarded-For, X-Forwarded-Proto, the expected client address and protocol. */
const cases = `
                           |                           | http  → 127.0.0.1 http
                           | 203.0.113.7               | https → 127.0.0.1 http
  10.0.0.0/8               | 203.0.113.7               | https → 127.0.0.1 http
  127.0.0.0/8              |                           | http  → 127.0.0.1 http
  127.0.0.0/8              | 203.0.113.7               | https → 203.0.113.7 https
  127.0.0.0/8              | 198.51.100.1, 203.0.113.7 | http  → 203.0.113.7 http
  127.0.0.0/8,10.0.0.0/8   | 203.0.113.7, 10.0.0.9     | https → 203.0.113.7 https
  127.0.0.1/32,10.0.0.0/8  | 1.2.3.4, 5.6.7.8, 10.0.0.9 | http → 5.6.7.8 http
  127.0.0.0/8,fd00::/8     | 2001:db8::7, fd00::1      | https → 2001:db8::7 https
`
test('only the forwarded address of a trusted proxy is used', async t => {
  for (const row of cases.trim().split('\n')) {
    const [trusted = '', forwarded = '', last = ''] = row.split('|').map(part => part.trim())
    const [proto = '', expected = ''] = last.split(/ *→ /)
    const trustedProxies = cidrs.parse(trusted)
    assert.ok(trustedProxies)
    const lines: string[] = []
    const server = createJsonServer({
      log: createLog({ level: 'debug', format: 'json', write: line => lines.push(line) }),
      clock: systemClock,
      randomBytes,
      onAnswer: () => {},
      trustedProxies,
    })
    t.after(() => server.close(100))
    server.app.get('/who', request => `${request.ip} ${request.protocol}`)
    const port = await server.listen({ host: '127.0.0.1', port: 0 })
    const headers: Record<string, string> =
      forwarded === '' ? {} : { 'x-forwarded-for': forwarded, 'x-forwarded-proto': proto }
    for (let times = 0; times < 2; times += 1) {
      const answer = await fetch(`http://127.0.0.1:${port}/who`, { headers })
      assert.equal(await answer.text(), expected, row)
      // The header is sent only over TLS, which a trusted proxy reports.
      const isSecure = answer.headers.has('strict-transport-security')
      assert.equal(isSecure, expected.endsWith(' https'), row)
    }
    await server.close(100)
    const [client = ''] = expected.split(' ')
    const logged = lines.join('')
    assert.equal(logged.split(`"client":"${client}"`).length, 3, logged)
    const isPassedOver = forwarded !== '' && client === '127.0.0.1'
    assert.equal(logged.split('TRUSTED_PROXIES').length, isPassedOver ? 2 : 1, logged)
  }
})
