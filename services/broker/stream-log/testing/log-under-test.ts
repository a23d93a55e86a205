import { waitFor } from '../../../../test/support/wait-for.ts'
import type { LoggedRequest, LogWriter, Opening, Resumption, RingCursor, RingLimits } from '../stream-log.ts'

/** Messages in tests are texts, because a log does not read them. */
export const toBytes = (text: string): Uint8Array => Buffer.from(text)
export const toText = (bytes: Uint8Array): string => Buffer.from(bytes).toString()

/** A request of the stream `s`. */
export function createOpening(requestId: string, limits: Partial<RingLimits> = {}): Opening {
  return {
    ids: { requestId, streamId: 's', targetObjectId: 't' },
    sourceServiceId: 'source',
    route: '',
    bearerHash: '',
    header: toBytes('header'),
    limits: { bytes: 1_000_000, ms: 60_000, keepMs: 60_000, whenFull: 'trim', ...limits },
    traceparent: '',
  }
}

/** Returns a request that its producer may continue, with the token hash of `createTokenHash(0)`. */
export function createResumable(
  requestId: string,
  graceMs: number,
  limits: Partial<RingLimits> = {},
): Opening {
  return {
    ...createOpening(requestId, limits),
    resume: { tokenHash: createTokenHash(0), graceMs },
    progress: { messages: 1 },
  }
}

/** Returns the hash of the token in the response to the continuation with this number. */
export const createTokenHash = (uses: number): string => String(uses).padStart(64, '0')

/** Returns the use of the token that the previous response had. */
export function createResumption({ key }: LoggedRequest, uses = 0): Resumption {
  return { run: key, uses, tokenHash: createTokenHash(uses), nextTokenHash: createTokenHash(uses + 1) }
}

/** A reader that takes all available entries, and what it has taken. */
export interface Collected {
  readonly cursor: RingCursor
  readonly texts: readonly string[]
  readonly positions: readonly number[]
}

export async function collect(request: LoggedRequest): Promise<Collected> {
  const texts: string[] = []
  const positions: number[] = []
  let cursor: RingCursor | undefined
  function take(): void {
    for (let entry = cursor?.next(); entry; entry = cursor?.next()) {
      texts.push(toText(entry.bytes))
      positions.push(entry.position)
    }
  }
  const opened = await request.read({ onReadable: take })
  cursor = opened
  take()
  return { cursor: opened, texts, positions }
}

/**
 * Appends an entry repeatedly until the ring is full, and resolves with the number of entries.
 *
 * @param atOnce the number of entries that are appended without a pause
 */
export async function appendUntilFull(
  writer: Pick<LogWriter, 'append'>,
  bytes: Uint8Array,
  atOnce = 1,
): Promise<number> {
  let appended = 0
  await waitFor('the ring to be full', () => {
    for (let count = 0; count < atOnce; count += 1) {
      appended += 1
      if (!writer.append(bytes)) return true
    }
    return false
  })
  return appended
}
