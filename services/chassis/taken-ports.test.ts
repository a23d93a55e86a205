import assert from 'node:assert/strict'
import { createServer } from 'node:net'
import { test } from 'node:test'
import { findTakenPorts } from './taken-ports.ts'

const host = '127.0.0.1'

test('a port that somebody has, shared or not, is taken; afterwards all are as before', async t => {
  for (const reusePort of [false, true]) {
    const server = createServer()
    await new Promise<void>(resolve => server.listen({ host, port: 0, reusePort }, resolve))
    t.after(() => server.close())
    const { port } = server.address() as { port: number }
    const wishes = [
      { host, port: 0, name: 'any' },
      { host, port, name: 'taken' },
      { host: '192.0.2.1', port: 0, name: 'elsewhere' },
    ]
    for (let look = 0; look < 2; look += 1) {
      const taken = await findTakenPorts(wishes)
      const told = taken.map(({ wish, error }) => `${wish.name} ${error.code}`)
      assert.deepEqual(told, ['taken EADDRINUSE', 'elsewhere EADDRNOTAVAIL'])
    }
  }
})

test('the same port twice is taken by the first', async () => {
  const server = createServer()
  await new Promise<void>(resolve => server.listen({ host, port: 0 }, resolve))
  const { port } = server.address() as { port: number }
  await new Promise(resolve => server.close(resolve))
  const taken = await findTakenPorts([
    { host, port, name: 'first' },
    { host, port, name: 'second' },
  ])
  assert.deepEqual(
    taken.map(({ wish }) => wish.name),
    ['second'],
  )
})
