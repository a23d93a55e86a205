import type { Log } from '@tollway/chassis/log/log.ts'
import { describeError } from './describe-error.ts'
import type { EventOutcome } from './operations/background/book-event.ts'
import { expireAuthorisations, maxExpiredAtOnce } from './operations/background/expire-authorisations.ts'
import { instructProcessor, maxInstructionsAtOnce } from './operations/background/instruct-processor.ts'
import { maxEventsAtOnce, recordEvents } from './operations/background/record-events.ts'
import {
  maxSweptAtOnce,
  type SweepOutcome,
  sweepAuthorisations,
} from './operations/background/sweep-authorisations.ts'
import type { Payments } from './operations/operation.ts'
import { removeExpiredKeys } from './storage/idempotency/idempotency-keys.ts'

export interface BackgroundOptions {
  readonly payments: Payments
  readonly log: Log
  readonly intervalMs: number
  /** Called with the number of instructions that the processor has accepted (`taken`) or that failed. */
  readonly onInstructed: (outcome: InstructionOutcome, count: number) => void
  /**
   * Called for each event of the processor that was booked or stored, and again when an event no longer
   * waits.
   */
  readonly onEvent: (outcome: EventOutcome) => void
  /** Called with the outcome of each attempt that `sweepAuthorisations` handled. */
  readonly onSwept: (outcome: SweepOutcome) => void
  /** Additional tasks, by name in the log. */
  readonly tasks?: Readonly<Record<string, Task>>
}

export const instructionOutcomes = ['taken', 'failed'] as const
type InstructionOutcome = (typeof instructionOutcomes)[number]

/** Does a part of the due work, and resolves with whether there is more to do now. */
export type Task = () => Promise<boolean>

const maxKeysAtOnce = 1_000
/**
 * At most this many exceptions of one call are logged separately; of the others, only the number is logged.
 */
const maxLogged = 10

/**
 * Runs each task now and again after each `intervalMs`, and again at once while the task has more to do. All
 * processes run the tasks; locks in the database prevent conflicts.
 */
export function startBackground(options: BackgroundOptions) {
  const { payments, log, intervalMs, tasks } = options
  const all: Readonly<Record<string, Task>> = {
    'send processor instructions': () => sendInstructions(options),
    'record processor events': () => recordAllEvents(options),
    'sweep authorisations': () => sweep(options),
    'expire authorisations': async () => (await expireAuthorisations(payments)) === maxExpiredAtOnce,
    'prune idempotency keys': () => pruneKeys(payments),
    ...tasks,
  }
  const running = Object.entries(all).map(([name, task]) => repeat(name, task, { log, intervalMs }))
  return {
    /** Starts no more tasks, and waits for the running ones. */
    async stop() {
      await Promise.all(running.map(stop => stop()))
    },
  }
}

function repeat(
  name: string,
  task: Task,
  { log, intervalMs }: Pick<BackgroundOptions, 'log' | 'intervalMs'>,
): () => Promise<void> {
  let stopped = false
  let timer: NodeJS.Timeout | undefined
  let current = Promise.resolve()

  async function run(): Promise<void> {
    try {
      while (!stopped && (await task()));
    } catch (error) {
      log.warn('run background task failed', { task: name, error: describeError(error) })
    }
    if (!stopped) timer = setTimeout(begin, intervalMs)
  }

  function begin(): void {
    current = run()
  }

  begin()
  return () => {
    stopped = true
    clearTimeout(timer)
    return current
  }
}

async function sendInstructions({ payments, log, onInstructed }: BackgroundOptions): Promise<boolean> {
  const { due, failures } = await instructProcessor(payments)
  onInstructed('failed', failures.length)
  onInstructed('taken', due - failures.length)
  for (const failure of failures) log.warn('send processor instruction failed', { ...failure })
  return due === maxInstructionsAtOnce
}

async function sweep({ payments, log, onSwept }: BackgroundOptions): Promise<boolean> {
  const swept = await sweepAuthorisations(payments)
  for (const { attempt, outcome, reason } of swept) {
    onSwept(outcome)
    const { reference, merchantId, tries } = attempt
    if (outcome === 'voided') log.warn('void authorisation without payment', { reference, merchantId })
    if (outcome === 'failed') {
      log.warn('cancel authorisation failed', { reference, merchantId, tries, reason })
    }
  }
  return swept.length === maxSweptAtOnce
}

async function recordAllEvents(options: BackgroundOptions): Promise<boolean> {
  const { test, live } = options.payments.processors
  const fromTest = await recordProcessorEvents(options, test, true)
  const fromLive = live === null ? false : await recordProcessorEvents(options, live, false)
  return fromTest || fromLive
}

async function recordProcessorEvents(
  { payments, log, onEvent }: BackgroundOptions,
  processor: Payments['processors']['test'],
  test: boolean,
): Promise<boolean> {
  const recorded = await recordEvents(payments, processor, test)
  const exceptions = recorded.filter(({ isBooked, isNew, outcome }) => {
    if (isNew) onEvent(outcome)
    return isNew && !isBooked && outcome !== 'waiting'
  })
  for (const { eventId, outcome, reason } of exceptions.slice(0, maxLogged)) {
    log.error('book processor event failed', { event: eventId, outcome, reason })
  }
  const more = exceptions.length - maxLogged
  if (more > 0) log.error('book further processor events failed', { count: more })
  return recorded.length >= maxEventsAtOnce && recorded.some(({ isNew }) => isNew)
}

async function pruneKeys({ storage, clock }: Payments): Promise<boolean> {
  const removed = await storage.transaction(tx => removeExpiredKeys(tx, clock.nowMs(), maxKeysAtOnce))
  return removed === maxKeysAtOnce
}
