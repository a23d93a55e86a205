import { createHash } from 'node:crypto'
import { open, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { Clock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import { readBoundedFile } from '@tollway/chassis/read-bounded-file.ts'

interface LastGoodFileOptions {
  /** CONFIG_LAST_GOOD_FILE. The folder must exist and be writable. */
  readonly path: string
  /** The limit of the content; longer content is not read. */
  readonly maxBytes: number
  readonly clock: Clock
  readonly log: Log
}

/**
 * The format with its version, the time of writing in milliseconds since the epoch, and the SHA-256 of the
 * content.
 */
const heading = /^tollway-last-good 1 (\d{1,15}) ([0-9a-f]{64})\n/
const maxHeadingBytes = 120

/** The last good configuration in a file, with which a process can start without the management server. */
export class LastGoodFile {
  readonly path: string
  readonly #options: LastGoodFileOptions
  #waiting: Uint8Array | undefined
  #writing: Promise<void> | undefined
  #lastReason: string | undefined

  constructor(options: LastGoodFileOptions) {
    this.path = options.path
    this.#options = options
  }

  /**
   * Writes the content in the background. Of contents that arrive during a write, only the newest is written.
   * The write is atomic: after SIGKILL or a power cut, the file has the old or the new content. A failure is
   * logged once for each reason in a row, and has no other effect.
   */
  store(content: Uint8Array): void {
    this.#waiting = content
    this.#writing ??= this.#writeAll().finally(() => {
      this.#writing = undefined
    })
  }

  /** Returns undefined when there is no file. Also when it cannot be used; that is logged. */
  read(): { readonly content: Uint8Array; readonly ageMs: number } | undefined {
    const { path } = this
    const { maxBytes, clock, log } = this.#options
    try {
      return parse(readBoundedFile(path, maxBytes + maxHeadingBytes), clock.nowMs())
    } catch (error) {
      const { message: reason, cause } = error as Error
      if ((cause as NodeJS.ErrnoException | undefined)?.code === 'ENOENT') return undefined
      log.warn('load last good configuration failed', { path, reason })
      return undefined
    }
  }

  /** Resolves when all pending writes are done. */
  async close(): Promise<void> {
    await this.#writing
  }

  async #writeAll(): Promise<void> {
    const { path } = this
    const { clock, log } = this.#options
    for (;;) {
      const content = this.#waiting
      this.#waiting = undefined
      if (content === undefined) return
      try {
        await writeAtomically(path, formatHeading(content, clock.nowMs()), content)
        this.#lastReason = undefined
      } catch (error) {
        const reason = describeReason(error)
        if (reason !== this.#lastReason) log.warn('write last good configuration failed', { path, reason })
        this.#lastReason = reason
      }
    }
  }
}

function formatHeading(content: Uint8Array, nowMs: number): string {
  return `tollway-last-good 1 ${Math.trunc(nowMs)} ${hashHex(content)}\n`
}

function parse(bytes: Buffer, nowMs: number): { readonly content: Uint8Array; readonly ageMs: number } {
  const found = heading.exec(bytes.toString('latin1', 0, maxHeadingBytes))
  if (found === null) throw new Error('the file is not of the form that this version writes')
  const [line, writtenMs, hash] = found
  const content = bytes.subarray(line.length)
  if (hashHex(content) !== hash) throw new Error('the file is damaged')
  return { content, ageMs: Math.max(0, nowMs - Number(writtenMs)) }
}

function hashHex(content: Uint8Array): string {
  return createHash('sha256').update(content).digest('hex')
}

/**
 * Only the owner can read the new file. The temporary file must not exist before, so that no link is
 * followed.
 */
async function writeAtomically(path: string, ...parts: readonly (string | Uint8Array)[]): Promise<void> {
  const unfinished = `${path}.${process.pid}.new`
  await rm(unfinished, { force: true })
  try {
    const file = await open(unfinished, 'wx', 0o600)
    try {
      for (const part of parts) await file.writeFile(part)
      await file.sync()
    } finally {
      await file.close()
    }
    await rename(unfinished, path)
  } catch (error) {
    await rm(unfinished, { force: true })
    throw error
  }
  const folder = await open(dirname(path), 'r')
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}

function describeReason(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException
  return code ?? message
}
