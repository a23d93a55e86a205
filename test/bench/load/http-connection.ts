import type { LoadListener, OpenConnection } from './load-connection.ts'
import { openLoadSocket } from './socket.ts'

export interface HttpLoadTarget {
  readonly port: number
  /** The expected status code of every answer. */
  readonly status: number
}

const headEnd = Buffer.from('\r\n\r\n')
const lastChunk = Buffer.from('0\r\n\r\n')

/**
 * HTTP/1.1 with one call at a time on a persistent connection. A request's body is the whole request as
 * bytes. Answers have a Content-Length or are chunked; no bytes may follow before the next request, which
 * makes the end of chunks easy to detect.
 */
export function httpLoad(target: HttpLoadTarget): OpenConnection {
  return listener => openHttpConnection(target, listener)
}

async function openHttpConnection({ port, status }: HttpLoadTarget, listener: LoadListener) {
  const statusLine = Buffer.from(`HTTP/1.1 ${status} `)
  let rest: Buffer = Buffer.alloc(0)
  let running = -1

  function read(chunk: Buffer): void {
    const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    if (!isWhole(bytes)) {
      rest = Buffer.from(bytes)
      return
    }
    rest = Buffer.alloc(0)
    const call = running
    running = -1
    listener.answered(call, bytes.subarray(0, statusLine.length).equals(statusLine))
  }

  const socket = await openLoadSocket(port, read, listener.lost)
  return {
    send(body: Uint8Array, call: number) {
      running = call
      socket.push(body)
    },
    close: socket.close,
  }
}

/** Returns whether the bytes are a complete answer. */
export function isWhole(bytes: Buffer): boolean {
  const end = bytes.indexOf(headEnd)
  if (end < 0) return false
  const head = bytes.toString('latin1', 0, end)
  const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1]
  if (length !== undefined) return bytes.length >= end + headEnd.length + Number(length)
  return bytes.subarray(-lastChunk.length).equals(lastChunk)
}
