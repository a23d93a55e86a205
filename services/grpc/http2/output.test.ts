import assert from 'node:assert/strict'
import { once } from 'node:events'
import { Duplex } from 'node:stream'
import { test } from 'node:test'
import { Output } from './output.ts'

/** Creates a socket that takes each write only later, as a TLS socket does. */
function slowSocket(): Duplex {
  return new Duplex({
    writableHighWaterMark: 64 * 1024,
    read() {},
    write(_chunk, _encoding, done) {
      setImmediate(done)
    },
  })
}

test('large writes use the buffers again that a socket took later', async () => {
  const socket = slowSocket()
  const output = new Output(socket, () => {})
  const buffers = new Set<ArrayBufferLike>()
  const chunk = Buffer.alloc(16 * 1024)
  for (let writes = 0; writes < 20; writes++) {
    const drained = once(socket, 'drain')
    for (let count = 0; count < 4; count++) {
      output.append(chunk)
      buffers.add(output.target.buffer)
    }
    output.flush()
    await drained
  }
  assert.ok(buffers.size <= 2, `${buffers.size} buffers`)
})

test('no byte of a buffer that is used again changes before the socket takes it', async () => {
  const taken: number[] = []
  const socket = new Duplex({
    writableHighWaterMark: 64 * 1024,
    read() {},
    write(chunk: Buffer, _encoding, done) {
      setImmediate(() => {
        taken.push(...chunk.filter((_, index) => index % 1024 === 0))
        done()
      })
    },
  })
  const output = new Output(socket, () => {})
  const sent: number[] = []
  for (let count = 0; count < 200; count++) {
    const bytes = 1024 * (1 + (count % 60))
    output.append(Buffer.alloc(bytes, count))
    sent.push(...Array<number>(bytes / 1024).fill(count))
    if (count % 3 === 0) output.flush()
    if (count % 7 === 0) await new Promise(resolve => setImmediate(resolve))
  }
  output.flush()
  while (taken.length < sent.length) await new Promise(resolve => setImmediate(resolve))
  assert.deepEqual(taken, sent)
})
