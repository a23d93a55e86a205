import assert from 'node:assert/strict'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import { seededRandom } from './api-proxy.ts'
import { type BackendFault, randomFault, startBackendProxy } from './backend-proxy.ts'
import { countCommands } from './count-commands.ts'
import { waitFor } from './wait-for.ts'

/** Starts a server that echoes each chunk, and a proxy in front of it. */
async function startEcho(t: TestContext) {
  const received: string[] = []
  const echo = createServer(socket => {
    socket.on('error', () => {})
    socket.on('data', bytes => {
      received.push(bytes.toString())
      socket.write(bytes)
    })
  })
  await new Promise<void>(resolve => echo.listen(0, '127.0.0.1', resolve))
  const proxy = await startBackendProxy({ targetPort: (echo.address() as AddressInfo).port, seed: 1 })
  t.after(async () => {
    await proxy.stop()
    echo.close()
  })
  return { proxy, received }
}

/** Opens a client that keeps the received data, and how its connection ended. */
function dial(t: TestContext, port: number) {
  const heard = { text: '', end: '' }
  const socket: Socket = connect(port, '127.0.0.1')
  t.after(() => socket.destroy())
  socket.on('data', bytes => {
    heard.text += bytes.toString('latin1')
  })
  socket.on('error', (error: NodeJS.ErrnoException) => {
    heard.end = error.code ?? ''
  })
  socket.on('end', () => {
    heard.end ||= 'end'
  })
  return { heard, socket, hears: (text: string) => waitFor(`"${text}"`, () => heard.text === text) }
}

async function startStruck(t: TestContext, fault: BackendFault) {
  const { proxy, received } = await startEcho(t)
  const client = dial(t, proxy.port)
  client.socket.write('before ')
  await client.hears('before ')
  await proxy.setFault(fault)
  return { proxy, received, ...client }
}

test('without a fault the data is unchanged', async t => {
  const { proxy } = await startEcho(t)
  const { socket, hears } = dial(t, proxy.port)
  socket.write('one')
  await hears('one')
  assert.equal(proxy.struck(), 0)
})

test('refuse: connections end, and others are rejected until the fault is removed', async t => {
  const { proxy, heard } = await startStruck(t, { kind: 'refuse' })
  await waitFor('the end', () => heard.end !== '')
  const refused = dial(t, proxy.port)
  await waitFor('the rejection', () => refused.heard.end === 'ECONNREFUSED')
  await proxy.setFault()
  const { socket, hears } = dial(t, proxy.port)
  socket.write('back')
  await hears('back')
})

test('hang-up: connections are accepted and closed', async t => {
  const { proxy, heard } = await startStruck(t, { kind: 'hang-up' })
  await waitFor('the end', () => heard.end !== '')
  const other = dial(t, proxy.port)
  await waitFor('the end of another one', () => other.heard.end !== '')
})

test('silence: connections stay open, and data arrives when the fault is removed', async t => {
  const { proxy, socket, hears, received } = await startStruck(t, { kind: 'silence' })
  socket.write('late')
  const other = dial(t, proxy.port)
  await waitFor('the other connection', () => !other.socket.connecting)
  other.socket.write('other')
  assert.deepEqual(received, ['before '])
  await proxy.setFault()
  await hears('before late')
  await other.hears('other')
})

test('latency: replies are delayed, in order', async t => {
  const { socket, hears } = await startStruck(t, { kind: 'latency', ms: 50, jitterMs: 20 })
  const startedMs = performance.now()
  for (const text of ['a', 'b', 'c']) socket.write(text)
  await hears('before abc')
  assert.ok(performance.now() - startedMs >= 49)
})

test('cut: half a reply, and the end of the connection', async t => {
  const { socket, heard, proxy } = await startStruck(t, { kind: 'cut', share: 1 })
  socket.write('halves')
  await waitFor('the end', () => heard.end === 'end')
  assert.equal(heard.text, 'before hal')
  assert.equal(proxy.struck(), 1)
})

test('garbage: bytes that begin no reply', async t => {
  const { socket, heard } = await startStruck(t, { kind: 'garbage', share: 1 })
  socket.write('x')
  await waitFor('garbage', () => /^before [\x80-\xff]{64}$/.test(heard.text))
})

test('drip: byte by byte', async t => {
  const { socket, heard, hears } = await startStruck(t, { kind: 'drip', bytes: 1, everyMs: 10 })
  const startedMs = performance.now()
  socket.write('slow')
  await waitFor('the first bit', () => heard.text.length > 'before '.length)
  await hears('before slow')
  assert.ok(performance.now() - startedMs >= 29)
})

test('answer: each command is answered with the line, and none reaches the server', async t => {
  const { proxy, heard, received } = await startStruck(t, { kind: 'answer', line: '-ERR no' })
  await waitFor('the end of earlier connections', () => heard.end !== '')
  const { socket, hears } = dial(t, proxy.port)
  socket.write('*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n')
  await hears('-ERR no\r\n-ERR no\r\n')
  assert.deepEqual(received, ['before '])
})

const commands: readonly (readonly ['redis' | 'memcached', string, number])[] = [
  ['redis', '*1\r\n$4\r\nPING\r\n', 1],
  ['redis', '*3\r\n$6\r\nINCRBY\r\n$4\r\n*1\r\n\r\n$1\r\n1\r\n*2\r\n$3\r\nGET\r\n$0\r\n\r\n', 2],
  ['memcached', 'get a\r\n', 1],
  ['memcached', 'add a 0 60 1\r\n0\r\nincr a 1\r\nget b\r\n', 3],
]
for (const [protocol, text, count] of commands) {
  test(`${count} of ${protocol} are counted, for any split: ${JSON.stringify(text)}`, () => {
    for (const size of [1, 2, 7, text.length]) {
      const counted = countCommands(protocol)
      let sum = 0
      for (let from = 0; from < text.length; from += size) {
        sum += counted(Buffer.from(text.slice(from, from + size)))
      }
      assert.equal(sum, count, `in pieces of ${size}`)
    }
  })
}

test('a seed determines the faults', () => {
  const row = (seed: number) => {
    const random = seededRandom(seed)
    return Array.from({ length: 20 }, () => randomFault(random))
  }
  assert.deepEqual(row(7), row(7))
  assert.notDeepEqual(row(7), row(8))
  assert.ok(new Set(row(7).map(({ kind }) => kind)).size > 4)
})
