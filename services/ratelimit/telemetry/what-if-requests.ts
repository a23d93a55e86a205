import { gunzip } from 'node:zlib'
import type { ShowEntries } from './hide-values.ts'
import { type PartCipher, readPart, takePart } from './recording/call-parts.ts'
import type { CallRecording, RecordedCalls } from './recording/call-recording.ts'
import { countRecords, type ReadStep, type RecordedCall } from './recording/generation.ts'
import { MergedCalls } from './recording/merged-calls.ts'
import { createReplaySlices, type ReplayParts, type ReplaySettings, replay } from './recording/replay.ts'
import { type OperatorRequest, type ProcessReport, toReplayMessage } from './report-codec.ts'

/** A what-if replays recorded calls with a proposed configuration. */
export interface WhatIfParts extends Pick<ReplayParts, 'rules'> {
  readonly recording: CallRecording | undefined
  readonly replaySettings: ReplaySettings
  readonly show: ShowEntries
  readonly seal: PartCipher
  readonly clock: { nowMs(): number }
}

/** The configuration of a what-if may have at most this many bytes, uncompressed. */
const maxResourceBytes = 10 * 1024 * 1024
const progressStep = 0.05
/** An open recording keeps memory, so it is closed after this time, longer than any what-if takes. */
const maxOpenMs = 150_000

/** A recording that an operator has opened, with the calls of other processes that it has added. */
interface Opened {
  readonly name: bigint
  readonly domain: string
  readonly recording: CallRecording
  readonly recorded: RecordedCalls
  readonly closing: AbortController
  readonly release: () => void
  merged: MergedCalls | undefined
  reading: Iterator<ReadStep> | undefined
}

type Value<Case> = (OperatorRequest & { case: Case })['value']

/**
 * Answers the requests for what-ifs in one session.
 *
 * @param send sends a report. The operator may miss an `isOptional` one if it does not read in time.
 */
export function createWhatIfHandler(
  parts: WhatIfParts,
  send: (report: ProcessReport, isOptional: boolean) => void,
) {
  const { recording, seal, clock, show, rules, replaySettings } = parts
  let opened: Opened | undefined

  function open({ id, recording: name, domain }: Value<'openRecording'>): void {
    if (recording === undefined || opened !== undefined) {
      const busy = opened !== undefined
      const problem = busy
        ? 'another replay is running'
        : 'DECISION_RECORDING_BYTES is 0: no calls are recorded'
      send({ case: 'recording', value: { id, problem, busy } }, false)
      return
    }
    const recorded = recording.of(domain)
    const unpin = recorded.hold()
    const expiry = setTimeout(() => close(name), maxOpenMs).unref()
    const release = () => {
      clearTimeout(expiry)
      unpin()
    }
    opened = {
      name,
      domain,
      recording,
      recorded,
      release,
      closing: new AbortController(),
      merged: undefined,
      reading: undefined,
    }
    const { fromSeconds, isWhole: whole, resolutionMs, calls, halvings, ofDomain } = recorded
    const value = {
      id,
      whole,
      resolutionMs,
      halvings,
      fromMs: BigInt(fromSeconds * 1000),
      calls: BigInt(calls),
      records: BigInt(ofDomain),
      maxRecords: BigInt(countRecords(recording.bytes)),
      nowMs: BigInt(clock.nowMs()),
    }
    send({ case: 'recording', value }, false)
  }

  function close(name: bigint): void {
    if (opened?.name !== name) return
    opened.closing.abort()
    opened.release()
    opened = undefined
  }

  /** @throws Error if no recording of this name is open */
  function find(name: bigint): Opened {
    if (opened?.name === name) return opened
    throw new Error('the recording is not open')
  }

  function openMerged(name: bigint, halvings: number, epochSeconds: bigint): MergedCalls {
    const found = find(name)
    found.merged ??= new MergedCalls({
      domain: found.domain,
      bytes: found.recording.bytes,
      halvings,
      epochSeconds: Number(epochSeconds),
      slices: createReplaySlices(() => found.recording.calls, found.closing.signal),
    })
    return found.merged
  }

  async function readNext({ id, recording, restart, halvings }: Value<'readPart'>): Promise<ProcessReport> {
    const found = find(recording)
    if (restart) found.reading = found.recorded.records(halvings)
    if (found.reading === undefined) throw new Error('the recording is read without a begin')
    const { calls, isLast } = takePart(found.reading)
    return { case: 'part', value: { id, calls: seal.encrypt(calls), last: isLast } }
  }

  async function addPart(request: Value<'addPart'>): Promise<ProcessReport> {
    const { id, recording, halvings, epochSeconds } = request
    const calls = readPart(seal.decrypt(request.calls), find(recording).domain)
    await openMerged(recording, halvings, epochSeconds).add(calls)
    return { case: 'added', value: { id } }
  }

  async function answerWhatIf(request: Value<'whatIf'>): Promise<ProcessReport> {
    const { id, domain, halvings, epochSeconds, fromMs } = request
    if (request.recording === 0n) throw new Error('the operator has an earlier version than this process')
    const { recorded, closing, recording } = find(request.recording)
    const { signal } = closing
    const resource = await unzip(request.resource)
    const merged = openMerged(request.recording, halvings, epochSeconds)
    await merged.add(callsIn(recorded.records(halvings)))
    let told = 0
    const result = await replay(
      { domain, resource, fromMs: Number(fromMs) },
      {
        settings: replaySettings,
        rules,
        signal,
        calls: await merged.inOrder(),
        decisions: () => recording.calls,
        onProgress(progress) {
          if (progress < told + progressStep) return
          told = progress
          send({ case: 'replay', value: { id, progress } }, true)
        },
      },
    )
    if (!('problem' in result)) return toReplayMessage(id, result, show)
    return { case: 'replay', value: { id, done: true, problem: result.problem, invalid: true } }
  }

  /** Sends the answer or its problem. If the recording is closed, nobody waits for it. */
  async function answer(
    id: bigint,
    as: 'part' | 'added' | 'replay',
    making: () => Promise<ProcessReport>,
  ): Promise<void> {
    try {
      send(await making(), false)
    } catch (error) {
      const problem = (error as Error).message
      send(
        { case: as, value: { id, problem, ...(as === 'replay' && { done: true }) } } as ProcessReport,
        false,
      )
    }
  }

  return {
    /** Returns false for a request of another kind. Never throws. */
    handle(request: OperatorRequest): boolean {
      const { case: kind, value } = request
      if (kind === 'openRecording') open(value)
      else if (kind === 'readPart') void answer(value.id, 'part', () => readNext(value))
      else if (kind === 'addPart') void answer(value.id, 'added', () => addPart(value))
      else if (kind === 'whatIf') void answer(value.id, 'replay', () => answerWhatIf(value))
      else if (kind === 'cancelWhatIf') close(value)
      else return false
      return true
    },
    close(): void {
      if (opened !== undefined) close(opened.name)
    },
  }
}

function* callsIn(steps: Iterable<ReadStep>): Generator<RecordedCall | undefined> {
  for (const { call } of steps) yield call
}

function unzip(bytes: Uint8Array): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    gunzip(bytes, { maxOutputLength: maxResourceBytes }, (error, result) => {
      if (error) reject(new Error(`read the configuration: ${error.message}`))
      else resolve(result)
    })
  })
}
