import { ExpectedError } from '@tollway/chassis/expected-error.ts'
import type { LoggedRequest, RingCursor, StreamLog } from '../stream-log/stream-log.ts'
import { PageError } from './admin-errors.ts'
import { jsonType, type PageHandler, send } from './page-server.ts'

/** A preview shows at most this many bytes and messages, the last ones. */
const maxBytes = 1024 * 1024
const maxMessages = 2_000
/** Messages from another broker, which come through Redis, are awaited for at most this long. */
const waitMs = 500
const quietMs = 50
/**
 * At most this many previews of different requests are made at the same time; each decodes up to `maxBytes`.
 */
const maxPreviews = 4

/**
 * Resolves with the JSON of the preview of a request, with its last messages decimated; undefined if no
 * request that is kept has the key. Rejects if the preview cannot be made now.
 */
export type MakePreview = (key: string) => Promise<string | undefined>

/**
 * Reads requests with a cursor that holds no messages, so the producer and the consumers are not affected.
 * Callers that ask for the same request at the same time share its preview.
 */
export function createPreviews(streams: Pick<StreamLog, 'list'>): MakePreview {
  const running = new Map<string, Promise<string>>()

  async function make(request: LoggedRequest): Promise<string> {
    const { header, messages } = await readLastMessages(request)
    // Imported with the first preview, since the decoder takes memory that other pages do not need.
    const { createPreview } = await import('./request-preview.ts')
    const { key, ids, ended } = request
    const preview = header === undefined ? null : createPreview(header, messages)
    return JSON.stringify({ key, ...ids, ended, preview })
  }

  return async key => {
    const request = streams.list().find(one => one.key === key)
    if (request === undefined) return undefined
    const known = running.get(key)
    if (known !== undefined) return known
    if (running.size >= maxPreviews) throw new ExpectedError(`${maxPreviews} previews are being made`)
    const making = make(request).finally(() => running.delete(key))
    running.set(key, making)
    return making
  }
}

/** Returns the page `/streams/preview?key=KEY`. */
export function previewPage(makePreview: MakePreview): PageHandler {
  return async (_, response, query) => {
    const key = query.get('key') ?? ''
    if (key === '') throw new PageError('invalid', 'key: is missing; expected that of a request in /streams')
    const made = await makePreview(key).catch((error: Error) => {
      throw new PageError('preview-failed', error.message)
    })
    if (made === undefined) throw new PageError('not-found', 'key: no request that is kept here has it')
    send(response, 200, `${made}\n`, jsonType)
  }
}

/** Reads the kept messages of a request without holding them. Resolves with copies of the last ones. */
async function readLastMessages(request: LoggedRequest) {
  let onReadable = () => {}
  const cursor = await request.read({ onReadable: () => onReadable(), waiting: true })
  try {
    const kept = new LastMessages()
    const { promise, resolve } = Promise.withResolvers<void>()
    const deadline = setTimeout(resolve, waitMs)
    let quiet = setTimeout(resolve, quietMs)
    onReadable = () => {
      clearTimeout(quiet)
      kept.takeAll(cursor)
      if (cursor.end === undefined) quiet = setTimeout(resolve, quietMs)
      else resolve()
    }
    onReadable()
    await promise
    clearTimeout(deadline)
    clearTimeout(quiet)
    return kept
  } finally {
    cursor.close()
  }
}

class LastMessages {
  header: Uint8Array | undefined
  readonly messages: Uint8Array[] = []
  #bytes = 0

  takeAll(cursor: RingCursor): void {
    for (let entry = cursor.next(); entry !== undefined; entry = cursor.next()) {
      if (entry.position === 0) this.header = entry.bytes.slice()
      else this.#add(entry.bytes.slice())
    }
  }

  #add(bytes: Uint8Array): void {
    this.messages.push(bytes)
    this.#bytes += bytes.length
    while (this.messages.length > maxMessages || this.#bytes > maxBytes) {
      this.#bytes -= this.messages.shift()?.length ?? 0
    }
  }
}
