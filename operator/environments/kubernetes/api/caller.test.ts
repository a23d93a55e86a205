import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { platform } from 'node:process'
import { after, before, describe, it } from 'node:test'
import type { KubeApiAccess } from './access.ts'
import { KubeApiError } from './api-error.ts'
import { createKubeClient } from './client.ts'
import type { ApiResource } from './kube-object.ts'
import type { WatchEvent } from './transport.ts'

const configMaps: ApiResource = { group: '', version: 'v1', plural: 'configmaps', namespaced: true }
const secrets: ApiResource = { group: '', version: 'v1', plural: 'secrets', namespaced: true }
const key = { namespace: 'shop', name: 'one' }
const token = 'a-token-that-nobody-may-see'

const object = (name: string, resourceVersion: string, data = '') =>
  JSON.stringify({ metadata: { name, namespace: 'shop', resourceVersion }, data: { data } })
const event = (type: string, text: string) => `{"type":"${type}","object":${text}}\n`

const answers: Record<string, (response: ServerResponse) => void> = {
  'is not JSON': response => response.end('<html>'),
  'is a JSON array': response => response.end('[1]'),
  'has no metadata': response => response.end('{"kind":"ConfigMap"}'),
  'is cut': response => {
    response.writeHead(200, { 'content-length': 100 })
    response.write('{"metadata":', () => response.destroy())
  },
  'does not arrive': () => {},
  'does not end': response => response.write('{"metadata":'),
  'is too long': response => response.end(object('one', '1', 'x'.repeat(20_000))),
  'is a page of text with 502': response => response.writeHead(502).end('bad gateway'),
  'is empty with 500': response => response.writeHead(500).end(),
  'is a Status': response =>
    response
      .writeHead(422)
      .end(JSON.stringify({ kind: 'Status', reason: 'Invalid', message: 'data.key: Invalid value: "42"' })),
  'is a redirection': response => response.writeHead(302, { location: 'http://127.0.0.1:1/' }).end(),
}

/** For each malformed answer, the expected code, reason and message of the error. */
const expectations: [keyof typeof answers & string, number, string, RegExp][] = [
  ['is not JSON', 0, 'BadAnswer', /is not a JSON object/],
  ['is a JSON array', 0, 'BadAnswer', /is not a JSON object/],
  ['has no metadata', 0, 'BadAnswer', /is not an object with metadata.name/],
  ['is cut', 0, 'Unreachable', /the answer is incomplete: aborted/],
  ['does not arrive', 0, 'Timeout', /no whole answer within 200 ms/],
  ['does not end', 0, 'Timeout', /no whole answer within 200 ms/],
  ['is too long', 0, 'TooLarge', /longer than 10000 bytes/],
  ['is a page of text with 502', 502, 'Unknown', /bad gateway/],
  ['is empty with 500', 500, 'Unknown', /without a message/],
  ['is a Status', 422, 'Invalid', /Invalid value: "42"/],
  ['is a redirection', 302, 'Unknown', /302/],
]

/** A state and a timer of Linux, as /proc/net/tcp shows them. */
const established = '01'
const keepaliveTimer = '02'
const hexadecimal = (port: number) => port.toString(16).toUpperCase().padStart(4, '0')

describe('# a client of a server with unusual answers', () => {
  let server: Server
  let answer: (response: ServerResponse) => void = () => {}
  let access: KubeApiAccess

  before(async () => {
    server = createServer((_request, response) => answer(response))
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    const credentials = { headers: { authorization: `Bearer ${token}` }, tls: {} }
    const url = new URL(`http://127.0.0.1:${port}`)
    access = { server: url, namespace: 'shop', credentials: async () => credentials }
  })
  after(() => {
    server.closeAllConnections()
    server.close()
  })

  const newClient = (attemptTimeoutMs = 60_000) =>
    createKubeClient(access, {
      random: () => 0,
      limits: { attemptTimeoutMs, maxAnswerBytes: 10_000, maxEventBytes: 10_000, outageSpacingMs: 1 },
    })

  async function fails(operation: () => Promise<unknown>): Promise<KubeApiError> {
    const error: unknown = await operation().then(
      () => assert.fail('the call succeeded'),
      error => error,
    )
    assert.ok(error instanceof KubeApiError, `${error}`)
    assert.doesNotMatch(`${error.stack} ${JSON.stringify(error)}`, new RegExp(token))
    return error
  }

  for (const [name, code, reason, message] of expectations) {
    it(`rejects an answer that ${name}`, async () => {
      const client = newClient(/^does not (arrive|end)$/.test(name) ? 200 : undefined)
      answer = answers[name] ?? assert.fail()
      const error = await fails(() => client.get(configMaps, key))
      assert.equal(error.code, code)
      assert.equal(error.reason, reason)
      assert.match(error.message, message)
      assert.match(error.message, /^GET \/api\/v1\/namespaces\/shop\/configmaps\/one: /)
      client.close()
    })
  }

  it("leaves the server's text about a rejected Secret out of the error", async () => {
    const client = newClient()
    answer = answers['is a Status'] ?? assert.fail()
    const error = await fails(() => client.apply(secrets, { metadata: key }))
    assert.equal(error.reason, 'Invalid')
    assert.doesNotMatch(error.message, /"42"/)
    client.close()
  })

  it('rejects calls to a server that cannot be reached', async () => {
    const nobody = new URL('http://127.0.0.1:1')
    const client = createKubeClient({ ...access, server: nobody }, { random: () => 0 })
    const error = await fails(() => client.get(configMaps, key))
    assert.equal(error.reason, 'Unreachable')
    assert.match(error.message, /^\w+ \S+: http:\/\/127\.0\.0\.1:\d+: connection refused$/)
    client.close()
  })

  it('rejects an aborted call with the reason of the caller', async () => {
    const client = newClient()
    answer = answers['does not arrive'] ?? assert.fail()
    const giveUp = new AbortController()
    const asked = client.get(configMaps, key, { signal: giveUp.signal })
    giveUp.abort(new Error('no longer wanted'))
    await assert.rejects(asked, /no longer wanted/)
    client.close()
  })

  it('rejects names that would change the path, before it sends anything', async () => {
    const client = newClient()
    answer = () => assert.fail('something was sent')
    await assert.rejects(client.get(configMaps, { namespace: 'shop', name: '..' }), /"\.\." cannot be a part/)
    await assert.rejects(client.get(configMaps, { namespace: '', name: 'one' }), /missing namespace/)
    client.close()
  })

  async function watched(lines: readonly (string | Buffer)[], cut = false): Promise<string[]> {
    const client = newClient()
    answer = response => {
      for (const line of lines) response.write(line)
      if (cut) setTimeout(() => response.destroy(), 20)
      else response.end()
    }
    const { signal } = new AbortController()
    const reported: string[] = []
    try {
      const events = client.watch(configMaps, { resourceVersion: '1', timeoutSeconds: 1, signal })
      for await (const { type, object } of events as AsyncIterable<WatchEvent>) {
        reported.push(`${type} ${object.metadata.name ?? ''}@${object.metadata.resourceVersion}`)
      }
    } catch (error) {
      assert.ok(error instanceof KubeApiError, `${error}`)
      assert.doesNotMatch(error.message, new RegExp(token))
      reported.push(`${error.code} ${error.reason}`)
    }
    client.close()
    return reported
  }

  const added = event('ADDED', object('one', '2'))
  const bookmark = event('BOOKMARK', '{"metadata":{"resourceVersion":"9"}}')
  const gone = event('ERROR', '{"kind":"Status","code":410,"reason":"Expired","message":"too old"}')
  const inHalves = [Buffer.from(added).subarray(0, 30), Buffer.from(added).subarray(30)]

  const watches: [string, (string | Buffer)[], string[]][] = [
    ['whole events', [added, bookmark], ['ADDED one@2', 'BOOKMARK @9']],
    [
      'several events at once',
      [`${added}${added}${bookmark}`],
      ['ADDED one@2', 'ADDED one@2', 'BOOKMARK @9'],
    ],
    ['an event in two chunks', inHalves, ['ADDED one@2']],
    ['empty lines', ['\n', added, '\n'], ['ADDED one@2']],
    ['an error event', [added, gone, added], ['ADDED one@2', '410 Expired']],
    ['garbage', [added, 'garbage\n', added], ['ADDED one@2', '0 BadAnswer']],
    ['an unknown type', [event('SHOUTED', object('one', '2'))], ['0 BadAnswer']],
    ['an object without a name', [event('ADDED', '{"metadata":{"resourceVersion":"2"}}')], ['0 BadAnswer']],
    ['an end inside a line', [added, added.slice(0, 30)], ['ADDED one@2', '0 BadAnswer']],
    ['a line without end', [added, 'x'.repeat(20_000)], ['ADDED one@2', '0 TooLarge']],
  ]
  for (const [name, lines, expected] of watches) {
    it(`reports of a watch with ${name}: ${expected.join(', ')}`, async () => {
      assert.deepEqual(await watched(lines), expected)
    })
  }

  it('lets the kernel probe the connection of a silent watch', { skip: platform !== 'linux' }, async () => {
    const client = newClient()
    answer = response => response.write(bookmark)
    const ending = new AbortController()
    const options = { resourceVersion: '1', timeoutSeconds: 600, signal: ending.signal }
    for await (const _ of client.watch(configMaps, options)) {
      const toServer = hexadecimal(Number(access.server.port))
      const sockets = readFileSync('/proc/net/tcp', 'utf8').split('\n')
      const [, , remote, state, , timer] =
        sockets
          .map(line => line.trim().split(/\s+/))
          .find(([, , address, state]) => address?.endsWith(`:${toServer}`) && state === established) ?? []
      assert.equal(timer?.slice(0, 2), keepaliveTimer, `${remote} ${state} ${timer}`)
      ending.abort()
      break
    }
    client.close()
  })

  it('reports a watch that is cut', async () => {
    assert.deepEqual(await watched([added, added.slice(0, 30)], true), ['ADDED one@2', '0 Unreachable'])
  })
})
