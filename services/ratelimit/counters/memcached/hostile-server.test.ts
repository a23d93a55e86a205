import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import fc from 'fast-check'
import { waitFor } from '../../../../test/support/wait-for.ts'
import { CountersError, type Hit, maxCount } from '../counters.ts'
import { MemcachedCounters } from './memcached.ts'

type Options = ConstructorParameters<typeof MemcachedCounters>[0]

/** Answers the requests of one write; `say` sends bytes. */
type Answer = (requests: string, say: (bytes: string) => void, socket: Socket) => void

interface FakeServer {
  readonly address: string
  /** The received requests, without the greetings. */
  readonly asked: string[]
  /** Returns the number of connections so far. */
  connections(): number
}

async function listen(t: TestContext, answer: Answer, greeting = 'END\r\n'): Promise<FakeServer> {
  const asked: string[] = []
  const sockets = new Set<Socket>()
  let connections = 0
  const server: Server = createServer(socket => {
    connections += 1
    sockets.add(socket)
    socket.setNoDelay().setEncoding('latin1')
    socket.on('error', () => {})
    socket.on('data', (text: string) => {
      if (text.startsWith('get tollway_probe')) socket.write(greeting)
      else {
        asked.push(text)
        answer(text, bytes => socket.write(bytes, 'latin1'), socket)
      }
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  return { address: `127.0.0.1:${port}`, asked, connections: () => connections }
}

function openOn(t: TestContext, server: FakeServer, options: Partial<Options> = {}) {
  const hostPort = server.address
  const counters = new MemcachedCounters({ hostPort, deadlineMs: 5_000, random: () => 0.999, ...options })
  t.after(() => counters.close())
  return counters
}

async function connected(
  t: TestContext,
  server: FakeServer,
  options: Partial<Options> = {},
): Promise<MemcachedCounters> {
  const counters = openOn(t, server, options)
  await waitFor('the greeting', () => counters.healthy)
  return counters
}

const hit = (key: string, hits = 1): Hit => ({ key, hits, expirySeconds: 60, limit: maxCount })

/** Resolves with the values, or with the text of the error. */
async function outcomeOf(call: Promise<readonly number[]>): Promise<readonly number[] | string> {
  return call.catch((error: unknown) => {
    assert.ok(error instanceof CountersError, String(error))
    return error.message
  })
}

test('the requests of a turn: one write, each key once, its counter created at its first touch', async t => {
  const server = await listen(t, (requests, say) => {
    const replies = { incr: '7\r\n', add: 'STORED\r\n', get: 'END\r\n' }
    for (const [, name = ''] of requests.matchAll(/^(incr|add|get) /gm)) {
      say(replies[name as keyof typeof replies])
    }
  })
  const counters = await connected(t, server)
  const calls = [[hit('a', 3)], [hit('b', 0), hit('a', 2)], [hit('c')]].map(batch => counters.add(batch))
  assert.deepEqual(await Promise.all(calls), [[5], [0, 7], [7]])
  assert.deepEqual(await counters.add([hit('a'), hit('b', 0)]), [7, 0])
  assert.deepEqual(server.asked, [
    'add a 0 61 1\r\n0\r\nincr a 5\r\nget b\r\nadd c 0 61 1\r\n0\r\nincr c 1\r\n',
    'incr a 1\r\nget b\r\n',
  ])
  assert.equal(server.connections(), 1)
})

test('replies may come in any pieces, at any time', async t => {
  const replies = 'STORED\r\n9007199254740990\r\nNOT_STORED\r\n5\r\nVALUE c 0 2\r\n17\r\nEND\r\n'
  const server = await listen(t, async (_, say) => {
    for (const byte of replies) {
      say(byte)
      await new Promise(resolve => setImmediate(resolve))
    }
  })
  const counters = await connected(t, server)
  const values = await counters.add([hit('a'), hit('b'), hit('c', 0)])
  assert.deepEqual(values, [9_007_199_254_740_990, 5, 17])
})

test('a slow server that keeps answering is not disconnected', async t => {
  let timer: NodeJS.Timeout | undefined
  t.after(() => clearInterval(timer))
  const server = await listen(t, (_, say) => {
    const pieces = ['STORED\r\n', '1', '2', '\r', '\n']
    timer = setInterval(() => {
      const piece = pieces.shift()
      if (piece === undefined) clearInterval(timer)
      else say(piece)
    }, 250)
  })
  const counters = await connected(t, server, { stallTimeoutMs: 1_000 })
  assert.deepEqual(await counters.add([hit('a')]), [12])
  assert.equal(server.connections(), 1)
})

test('a counter that vanishes right after its creation is an error, not a loop', async t => {
  const server = await listen(t, (requests, say) => {
    say(requests.startsWith('add') ? 'STORED\r\nNOT_FOUND\r\n' : 'NOT_FOUND\r\n')
  })
  const counters = await connected(t, server)
  const text = 'memcached did not keep the counter'
  assert.equal(await outcomeOf(counters.add([hit('a')])), text)
  assert.equal(await outcomeOf(counters.add([hit('a')])), text)
  assert.equal(server.asked.length, 2)
})

test('a malformed reply ends the connection and rejects all waiting calls with the reason', async t => {
  const table: readonly [string, RegExp][] = [
    ['HTTP/1.1 400 Bad Request\r\n', /a reply of unknown kind/],
    ['ERROR\r\n', /^ERROR$/],
    ['CLIENT_ERROR bad data chunk\r\n', /^CLIENT_ERROR bad data chunk$/],
    ['STORED\r\n5\r\nSTORED\r\nEND\r\n', /an unexpected reply/],
    ['STORED\r\n5\r\nSTORED\r\nSTORED\r\n', /an unexpected reply/],
    ['17\r\n5\r\nSTORED\r\n5\r\n', /an unexpected reply/],
    ['STORED\r\nVALUE a 0 1\r\n1\r\nEND\r\nSTORED\r\n5\r\n', /an unexpected reply/],
    ['STORED\r\n5\r\nNOT_FOUND\r\n5\r\n', /an unexpected reply/],
    ['STORED\r\n5', /was lost/],
  ]
  for (const [bytes, words] of table) {
    const server = await listen(t, (_, say, socket) => {
      say(bytes)
      if (!bytes.endsWith('\n')) socket.end()
    })
    const counters = await connected(t, server)
    const calls = [counters.add([hit('a')]), counters.add([hit('b')])].map(outcomeOf)
    for (const outcome of await Promise.all(calls)) assert.match(String(outcome), words, bytes)
    await waitFor('another connection', () => server.connections() === 2)
    assert.equal(server.asked.length, 1, 'a request was sent twice')
  }
})

test('unexpected replies end the connection too', async t => {
  const server = await listen(t, (_, say) => say('STORED\r\n5\r\n6\r\n'))
  const counters = await connected(t, server)
  await outcomeOf(counters.add([hit('a')]))
  await waitFor('another connection', () => server.connections() === 2)
})

test('a server that is not memcached is never healthy', async t => {
  const table: readonly [string, RegExp][] = [
    ['HTTP/1.1 400 Bad Request\r\n', /a reply of unknown kind/],
    ['STORED\r\n', /the server is not memcached/],
    ['SERVER_ERROR too many open connections\r\n', /SERVER_ERROR too many open connections/],
    ['ERROR\r\n', /ERROR/],
    ['', /did not answer for the first time within 50 ms/],
  ]
  for (const [greeting, words] of table) {
    const server = await listen(t, () => {}, greeting)
    const counters = openOn(t, server, { connectTimeoutMs: 50 })
    let healthy = false
    counters.onHealth(() => {
      healthy = true
    })
    await waitFor(String(words), () => words.test(counters.problem))
    await waitFor('another try', () => server.connections() > 1)
    assert.equal(healthy || counters.healthy, false)
  }
})

test('each call ends with a value or an error, whatever the reply', async t => {
  const piece = fc.constantFrom(
    ...['STORED\r\n', 'NOT_STORED\r\n', 'NOT_FOUND\r\n', 'END\r\n', '5\r\n', '18446744073709551615\r\n'],
    ...['VALUE a 0 1\r\n7\r\nEND\r\n', 'VALUE a 0 9\r\n', 'ERROR\r\n', 'SERVER_ERROR out of memory\r\n'],
    ...['CLIENT_ERROR cannot increment or decrement non-numeric value\r\n', '\r\n', 'x', '1'],
  )
  let script: string[] = []
  const server = await listen(t, (_, say, socket) => {
    const bytes = script.splice(0, 4).join('')
    if (bytes === '') socket.end()
    else say(bytes)
  })
  const counters = await connected(t, server, { deadlineMs: 30, stallTimeoutMs: 30, random: () => 0.99 })
  await fc.assert(
    fc.asyncProperty(fc.array(piece, { maxLength: 12 }), async pieces => {
      script = [...pieces]
      const batches = [[hit('a'), hit('b', 0)], [hit('c', 2 ** 40)], [hit('a', 2)]]
      const outcomes = await Promise.all(batches.map(batch => outcomeOf(counters.add(batch))))
      for (const [index, outcome] of outcomes.entries()) {
        if (typeof outcome === 'string') assert.notEqual(outcome, '')
        else {
          assert.equal(outcome.length, batches[index]?.length)
          for (const value of outcome) assert.ok(value <= maxCount, String(value))
        }
      }
    }),
    { numRuns: 60 },
  )
})
