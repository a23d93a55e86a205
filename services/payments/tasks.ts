import { join } from 'node:path'
import type { Log } from '@tollway/chassis/log/log.ts'
import { resolveBySystem } from '@tollway/chassis/webhooks/post-webhook.ts'
import { every, type Task } from './background.ts'
import { WebhookDeliverer } from './deliver-webhooks.ts'
import { createFolderTransport, type MailTransport } from './mail/mail-transport.ts'
import { mailOutcomes, sendDueMails } from './mail/send-due-mails.ts'
import type { Metrics } from './metrics.ts'
import { eventOutcomes } from './operations/background/book-event.ts'
import { expireAuthorisations, maxExpiredAtOnce } from './operations/background/expire-authorisations.ts'
import { instructProcessor, maxInstructionsAtOnce } from './operations/background/instruct-processor.ts'
import { isPayoutTime, payOutAll, payoutPeriod } from './operations/background/pay-out.ts'
import { maxEventsAtOnce, recordEvents } from './operations/background/record-events.ts'
import {
  maxSweptAtOnce,
  sweepAuthorisations,
  sweepOutcomes,
} from './operations/background/sweep-authorisations.ts'
import type { Payments } from './operations/operation.ts'
import { reportOutboxes } from './outbox-metrics.ts'
import { checkPage } from './pages/browser/check-page.ts'
import type { CardProcessor } from './processor/processor.ts'
import type { Settings } from './settings.ts'
import { removeExpiredKeys } from './storage/idempotency/idempotency-keys.ts'
import { prunables, prune } from './storage/pruning.ts'

interface TaskContext {
  readonly settings: Settings
  readonly payments: Payments
  readonly log: Log
  readonly metrics: Metrics
}

const dayMs = 86_400_000

export function createTasks(context: TaskContext) {
  const { settings, payments, metrics } = context
  const webhooks = createDeliverer(context)
  return {
    /** The tasks, by name in the log. */
    tasks: {
      'send processor instructions': sendInstructions(context),
      'record processor events': recordProcessorEvents(context),
      'sweep authorisations': sweep(context),
      'expire authorisations': async () => (await expireAuthorisations(payments)) === maxExpiredAtOnce,
      'prune idempotency keys': () => pruneKeys(payments),
      'send mail': sendMail(context),
      'deliver webhooks': () => webhooks.deliverDue(),
      'pay out merchants': payOut(context),
      'verify payment page': verifyPaymentPage(context),
      'report outboxes': reportOutboxes(payments, metrics),
      'prune expired rows': pruneExpired(payments, {
        deliveryMs: settings.deliveryRetentionDays * dayMs,
        eventMs: settings.eventRetentionDays * dayMs,
      }),
    } satisfies Readonly<Record<string, Task>>,
    drain: () => webhooks.drain(),
  }
}

function sendInstructions({ payments, log, metrics }: TaskContext): Task {
  const help = 'Captures, refunds and voids that were sent to the processor, by outcome.'
  const count = metrics.outcomes('payments_processor_instructions_total', help, ['taken', 'failed'])
  return async () => {
    const { due, failures } = await instructProcessor(payments)
    count('failed', failures.length)
    count('taken', due - failures.length)
    for (const failure of failures) log.warn('send processor instruction failed', { ...failure })
    return due === maxInstructionsAtOnce
  }
}

function sweep({ payments, log, metrics }: TaskContext): Task {
  const help = 'Authorisations whose answer was not stored in time, by outcome.'
  const count = metrics.outcomes('payments_authorisations_swept_total', help, sweepOutcomes)
  return async () => {
    const swept = await sweepAuthorisations(payments)
    for (const { attempt, outcome, reason } of swept) {
      count(outcome)
      const { reference, merchantId, tries } = attempt
      if (outcome === 'voided') log.warn('void authorisation without payment', { reference, merchantId })
      if (outcome === 'failed') {
        log.warn('cancel authorisation failed', { reference, merchantId, tries, reason })
      }
    }
    return swept.length === maxSweptAtOnce
  }
}

/** The other exceptions of one call are only counted in the log. */
const maxLoggedExceptions = 10

function recordProcessorEvents({ payments, log, metrics }: TaskContext): Task {
  const help = 'Frauds and disputes that the processor reported, by outcome.'
  const count = metrics.outcomes('payments_processor_events_total', help, eventOutcomes)
  const record = async (processor: CardProcessor, test: boolean) => {
    const recorded = await recordEvents(payments, processor, test)
    const added = recorded.filter(({ isNew }) => isNew)
    for (const { outcome } of added) count(outcome)
    const exceptions = added.filter(({ isBooked, outcome }) => !isBooked && outcome !== 'waiting')
    for (const { eventId, outcome, reason } of exceptions.slice(0, maxLoggedExceptions)) {
      log.error('book processor event failed', { event: eventId, outcome, reason })
    }
    const more = exceptions.length - maxLoggedExceptions
    if (more > 0) log.error('book further processor events failed', { count: more })
    return recorded.length >= maxEventsAtOnce && added.length > 0
  }
  const { test, live } = payments.processors
  return async () => {
    const testHasMore = await record(test, true)
    const liveHasMore = live !== null && (await record(live, false))
    return testHasMore || liveHasMore
  }
}

const maxKeysAtOnce = 1_000

async function pruneKeys({ storage, clock }: Payments): Promise<boolean> {
  const removed = await storage.transaction(tx => removeExpiredKeys(tx, clock.nowMs(), maxKeysAtOnce))
  return removed === maxKeysAtOnce
}

function sendMail({ settings, payments: { storage, clock }, log, metrics }: TaskContext): Task {
  const onOutcome = metrics.outcomes(
    'payments_mails_total',
    'Attempts to send mail, by outcome.',
    mailOutcomes,
  )
  const { mailFrom: from } = settings
  let transport: MailTransport | undefined
  return async () => {
    transport ??= await openMailTransport(settings)
    return sendDueMails({ storage, clock, random: Math.random, transport, from, log, onOutcome })
  }
}

/** Opens the SMTP server, or a folder if none is configured. Loads the SMTP module only if it is used. */
async function openMailTransport({ mailSmtpUrl, stateDir }: Settings): Promise<MailTransport> {
  if (mailSmtpUrl === null) return createFolderTransport(join(stateDir, 'mail'))
  const { createSmtpTransport } = await import('./mail/smtp-transport.ts')
  return createSmtpTransport(mailSmtpUrl)
}

function createDeliverer({ payments, log, metrics }: TaskContext): WebhookDeliverer {
  const { storage, clock, webhookPolicy: policy } = payments
  const count = metrics.counter('payments_webhook_tries_total', 'Attempts to deliver events, by outcome.')
  return new WebhookDeliverer({
    storage,
    clock,
    random: Math.random,
    log,
    policy,
    resolve: resolveBySystem,
    onOutcome: outcome => count({ outcome }),
  })
}

/** Pays out all merchants once a day, after the configured time. Later processes find nothing to pay. */
function payOut({ settings: { payoutTime }, payments, log }: TaskContext): Task {
  let paidPeriod = ''
  return async () => {
    const nowMs = payments.clock.nowMs()
    const period = payoutPeriod(nowMs)
    if (period === paidPeriod || !isPayoutTime(nowMs, payoutTime)) return false
    let count = 0
    await payOutAll(payments, period, () => {
      count += 1
    })
    paidPeriod = period
    log.info('pay out merchants', { period, count })
    return false
  }
}

const pageCheckMs = 5 * 60_000
const pageResults = ['intact', 'changed', 'unreachable'] as const

/** Compares the payment page with the inventory (see `checkPage`), if its public address is configured. */
function verifyPaymentPage({ settings, payments, log, metrics }: TaskContext): Task {
  const { payPageCheckUrl: address } = settings
  let result: (typeof pageResults)[number] | undefined
  metrics.gauge(
    'payments_page_check',
    'The last check of the payment page as payers load it: 1 for its result.',
    () => pageResults.map(name => [{ result: name }, name === result ? 1 : 0] as const),
  )
  return every(pageCheckMs, payments.clock, async () => {
    if (address === '') return false
    try {
      const differences = await checkPage(address)
      result = differences.length === 0 ? 'intact' : 'changed'
      for (const difference of differences) log.error('verify payment page failed', { difference })
    } catch (error) {
      result = 'unreachable'
      log.warn('load payment page failed', { address, reason: (error as Error).message })
    }
    return false
  })
}

/** The maximum number of rows that one transaction deletes, so that other transactions wait only briefly. */
const maxPrunedAtOnce = 500
const pruneMs = 60_000

interface Retention {
  /** How long mails, deliveries and all other prunable rows except events are kept. */
  readonly deliveryMs: number
  readonly eventMs: number
}

/** Deletes the rows whose retention is over; see `prune`. Only one process deletes at a time. */
export function pruneExpired(
  { storage, clock }: Pick<Payments, 'storage' | 'clock'>,
  { deliveryMs, eventMs }: Retention,
): Task {
  return every(pruneMs, clock, async () => {
    let hasMore = false
    for (const what of prunables) {
      const retentionMs = what === 'events' ? eventMs : deliveryMs
      const options = { untilMs: clock.nowMs() - retentionMs, limit: maxPrunedAtOnce }
      const removed = await storage.transaction(tx => prune(tx, what, options))
      hasMore ||= removed === maxPrunedAtOnce
    }
    return hasMore
  })
}
