import { createHash } from 'node:crypto'
import { open, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { Clock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log.ts'
import { readBoundedFile } from '@tollway/chassis/read-bounded-file.ts'

/** The last configuration that was good, kept where it outlives the process. */
export interface LastGoodFile {
  readonly path: string
  /**
   * Writes it soon; of several that come while one is being written, the newest counts. A reader sees the old
   * content or the new one, also after kill -9 or a power cut. What fails is told in the log, once for each
   * reason, and is no reason to stop.
   */
  keep(content: Uint8Array): void
  /** undefined when there is none, or, after it was told in the log, when it cannot be used. */
  read(): { readonly content: Uint8Array; readonly ageMs: number } | undefined
  /** Resolves when what was to be kept is written. */
  close(): Promise<void>
}

export interface LastGoodFileOptions {
  /** CONFIG_LAST_GOOD_FILE. Its folder must be there, and be this process's own. */
  readonly path: string
  /** Of the content. */
  readonly maxBytes: number
  readonly clock: Clock
  readonly log: Log
}

/** The first line: the form and its version, when it was written, and the hash of what follows. */
const heading = /^tollway-last-good 1 (\d{1,15}) ([0-9a-f]{64})\n/
const maxHeadingBytes = 120

export function openLastGoodFile({ path, maxBytes, clock, log }: LastGoodFileOptions): LastGoodFile {
  let waiting: Uint8Array | undefined
  let writing: Promise<void> | undefined
  let told: string | undefined

  async function writeAll(): Promise<void> {
    for (;;) {
      const content = waiting
      waiting = undefined
      if (content === undefined) return
      try {
        await writeAtomically(path, headingOf(content, clock.nowMs()), content)
        told = undefined
      } catch (error) {
        const reason = reasonOf(error)
        if (reason !== told) log.warn('the last good configuration cannot be kept', { path, reason })
        told = reason
      }
    }
  }

  return {
    path,
    keep(content) {
      waiting = content
      writing ??= writeAll().finally(() => {
        writing = undefined
      })
    },
    read() {
      try {
        return parse(readBoundedFile(path, maxBytes + maxHeadingBytes), clock.nowMs())
      } catch (error) {
        const { message: reason, cause } = error as Error
        if ((cause as NodeJS.ErrnoException | undefined)?.code === 'ENOENT') return undefined
        log.warn('the last good configuration cannot be used', { path, reason })
        return undefined
      }
    },
    async close() {
      await writing
    },
  }
}

function headingOf(content: Uint8Array, nowMs: number): string {
  return `tollway-last-good 1 ${Math.trunc(nowMs)} ${hashOf(content)}\n`
}

function parse(bytes: Buffer, nowMs: number): { readonly content: Uint8Array; readonly ageMs: number } {
  const found = heading.exec(bytes.toString('latin1', 0, maxHeadingBytes))
  if (found === null) throw new Error('the file is not of the form that this version writes')
  const [line, writtenMs, hash] = found
  const content = bytes.subarray(line.length)
  if (hashOf(content) !== hash) throw new Error('the file is damaged')
  return { content, ageMs: Math.max(0, nowMs - Number(writtenMs)) }
}

function hashOf(content: Uint8Array): string {
  return createHash('sha256').update(content).digest('hex')
}

/** For its owner's eyes only. The unfinished file is new each time, so that no link is followed. */
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

function reasonOf(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException
  return code ?? message
}
