import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { test } from 'node:test'
import { statusCodes } from '@tollway/grpc/status.ts'
import { FrameReader } from '../../services/grpc/http2/frames/frame-reader.ts'
import { frameBytes, frameTypes, preface } from '../../services/grpc/http2/frames/frames.ts'
import { frame } from '../../services/grpc/server/testing/contract/support.ts'
import { rssMiB } from '../bench/process-usage.ts'
import type { Cleanup } from '../support/tollway.ts'
import { waitFor } from '../support/wait-for.ts'
import { callHeaders, initialWindow } from './floods.ts'
import { startUnderAttack } from './service-under-attack.ts'

/** The data of one connection: calls whose messages lack their last byte. The long form has 900 of 4 MB. */
const [messages, bytes] = process.env['SOAK'] === '1' ? [900, 4_000_000] : [100, 1_000_000]
const pieceBytes = 16_000
/** The limit is 16 MiB; the rest is received data that was not collected yet. */
const maxGrowthMiB = 96

/** Sends the messages one at a time, as far as the server accepts them. */
async function sendUnfinished(t: Cleanup, port: number): Promise<{ rejected(): number }> {
  const windows = new Map<number, number>([[0, 65_535]])
  const ended = new Set<number>()
  const reader = new FrameReader((type, _flags, id, buffer, start) => {
    if (type === frameTypes.WINDOW_UPDATE)
      windows.set(id, (windows.get(id) ?? 0) + buffer.readUInt32BE(start))
    else if (type === frameTypes.RST_STREAM) ended.add(id)
    else assert.notEqual(type, frameTypes.GOAWAY)
  })
  reader.read(preface)
  const socket = connect({ port, host: '127.0.0.1', noDelay: true })
  t.after(async () => void socket.destroy())
  socket.on('data', (chunk: Buffer) => reader.read(chunk))
  socket.write(Buffer.concat([preface, initialWindow(65_535)]))
  const message = frame(Buffer.alloc(bytes)).subarray(0, -1)
  for (let id = 1; id < 2 * messages; id += 2) {
    socket.write(callHeaders(id))
    windows.set(id, 65_535)
    for (let at = 0; at < message.length && !ended.has(id); ) {
      const piece = message.subarray(at, at + pieceBytes)
      const [whole = 0, own = 0] = [windows.get(0), windows.get(id)]
      if (piece.length > Math.min(whole, own)) await new Promise(resolve => setImmediate(resolve))
      else {
        windows.set(0, whole - piece.length).set(id, own - piece.length)
        socket.write(frameBytes(frameTypes.DATA, 0, id, piece))
        at += piece.length
      }
    }
  }
  return { rejected: () => ended.size }
}

test(`${messages} unfinished messages of ${bytes} bytes use no more than the limit`, async t => {
  const { process: service, caller, check } = await startUnderAttack(t)
  const ask = () =>
    caller.shouldRateLimit({ domain: 'd', descriptors: [{ entries: [{ key: 'k', value: '' }] }] })
  for (let call = 0; call < 100; call++) await ask()
  const before = rssMiB(service.program.pid)
  const { rejected } = await sendUnfinished(t, service.grpcPort)
  const growth = rssMiB(service.program.pid) - before
  t.diagnostic(`${growth.toFixed(0)} MiB more, ${rejected()} rejected`)
  assert.ok(growth < maxGrowthMiB, `the service uses ${growth} MiB more`)
  await waitFor('rejections', () => rejected() > messages / 2)
  await ask()
  // Requests that need memory are also rejected over HTTP while none is left.
  const socket = connect({ port: service.httpPort, host: '127.0.0.1' })
  let answer = ''
  socket.on('data', chunk => (answer += chunk)).on('error', () => {})
  t.after(async () => void socket.destroy())
  socket.write(`POST /json HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n${'x'.repeat(999_999)}`)
  await waitFor('the rejection', () => answer.startsWith('HTTP/1.1 503 '))
  const entries = [{ key: 'k', value: 'x'.repeat(300_000) }]
  await assert.rejects(caller.shouldRateLimit({ domain: 'd', descriptors: Array(3).fill({ entries }) }), {
    code: statusCodes.RESOURCE_EXHAUSTED,
  })
  await check()
})
