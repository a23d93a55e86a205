import { ended, type ResumeState, runGone, useToken } from '../../resume-state.ts'
import { describeEnd, LogRefusal, type ResumedRequest, type Resumption } from '../../stream-log.ts'
import type { Directory } from '../directory/directory.ts'
import { type DirectoryEntry, decodeEntry, encodeEntry } from '../directory/directory-entry.ts'
import type { Feeds } from '../reading/feeds.ts'
import { resumeScript } from '../scripts.ts'
import type { RedisLogSetup } from '../setup.ts'
import { type Producers, unavailable } from './producers.ts'

export interface ResumeParts {
  readonly setup: RedisLogSetup
  readonly directory: Directory
  readonly producers: Producers
  readonly feeds: Feeds
}

/**
 * The number of changes of a request that are tolerated between two commands, because its token was used or
 * its producer moved.
 */
const maxTries = 5

/**
 * Continues a request at this broker; see `StreamLog.resume`. If its producer was at another broker, this one
 * becomes the owner: Redis rejects later entries of that broker, and the request has all entries that Redis
 * accepted before.
 */
export async function resumeRequest(parts: ResumeParts, resumption: Resumption): Promise<ResumedRequest> {
  const { setup, producers } = parts
  await setup.commands.whenReady(setup.timings.stallMs).catch(unavailable)
  return await producers.expecting(resumption.run, async () => {
    for (let tried = 0; tried < maxTries; tried += 1) {
      const resumed = await tryOnce(parts, resumption)
      if (resumed !== undefined) return resumed
    }
    throw new LogRefusal('unavailable', 'the request is continued by others at the same time')
  })
}

interface Stored {
  readonly filed: DirectoryEntry
  readonly header: Uint8Array
  readonly owner: string
  readonly state: ResumeState | undefined
}

async function read({ keys, commands }: RedisLogSetup, run: string): Promise<Stored> {
  const [value, header, fields] = await Promise.all([
    commands.call('HGET', keys.requests, run),
    commands.call('GET', keys.header(run)),
    commands.call('HMGET', keys.producer(run), 'owner', 'token', 'previous', 'uses'),
  ]).catch(unavailable)
  const filed = value instanceof Uint8Array ? decodeEntry(run, String(value)) : undefined
  if (filed === undefined || !(header instanceof Uint8Array)) throw runGone(run)
  const [owner, tokenHash, previousHash, uses] = (fields as (Uint8Array | null)[]).map(field =>
    field === null ? '' : String(field),
  )
  const previous = previousHash ? { previousHash } : {}
  const state = tokenHash ? { tokenHash, ...previous, uses: Number(uses) } : undefined
  return { filed, header: new Uint8Array(header), owner: owner ?? '', state }
}

/** Undefined if the request has changed since it was read. */
async function tryOnce(parts: ResumeParts, resumption: Resumption): Promise<ResumedRequest | undefined> {
  const { setup, directory, producers, feeds } = parts
  const { podId } = setup
  const { filed, header, owner, state } = await read(setup, resumption.run)
  const { uses } = useToken(state, resumption)
  if (filed.ended !== undefined) throw ended(describeEnd(filed.ended.end))
  // The directory of this broker may be older than the data that was read.
  directory.learn(filed)
  const here = producers.get(filed.key)
  const next = here === undefined ? { ...filed, podId, owner: Number(owner) + 1 } : filed
  const progress = await use(setup, { resumption, owner, next, isNew: here === undefined })
  if (progress === undefined) return undefined
  if (here !== undefined) {
    const resumed = here.resume()
    if (resumed === undefined) throw ended('the time to continue is over')
    return { ...resumed, uses }
  }
  return await feeds.handOver(next, ring => {
    const known = directory.get(filed.key)
    if (known?.filed.ended !== undefined) throw ended(describeEnd(known.filed.ended.end))
    return { writer: producers.takeOver(next, { header, progress, ring }), header, uses, progress }
  })
}

interface Use {
  readonly resumption: Resumption
  readonly owner: string
  readonly next: DirectoryEntry
  readonly isNew: boolean
}

/** Uses the token. Returns the progress in Redis, or undefined if the request has changed. */
async function use(
  setup: RedisLogSetup,
  { resumption, owner, next, isNew }: Use,
): Promise<object | undefined> {
  const { keys, commands, timings } = setup
  const { run, tokenHash, nextTokenHash } = resumption
  const names = [keys.producer(run), keys.requests, keys.news, keys.entries(run), keys.header(run)]
  const filed = isNew ? `${next.epoch} ${encodeEntry(next)}` : ''
  const values = [run, owner, tokenHash, nextTokenHash, next.owner, filed, timings.orphanMs]
  const reply = await commands
    .call('EVAL', resumeScript, names.length, ...names, ...values)
    .catch(unavailable)
  return reply instanceof Uint8Array ? JSON.parse(String(reply)) : undefined
}
