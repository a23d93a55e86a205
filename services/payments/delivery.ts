import { join } from 'node:path'
import type { Log } from '@tollway/chassis/log/log.ts'
import { resolveBySystem } from '@tollway/chassis/webhooks/post-webhook.ts'
import type { Task } from './background.ts'
import { WebhookDeliverer } from './deliver-webhooks.ts'
import { createFolderTransport, type MailTransport } from './mail/mail-transport.ts'
import { sendDueMails } from './mail/send-due-mails.ts'
import type { Metrics } from './metrics.ts'
import { strictPolicy } from './operations/accounts/webhooks.ts'
import { isPayoutTime, payOutAll, payoutPeriod } from './operations/background/pay-out.ts'
import type { Payments } from './operations/operation.ts'
import type { Settings } from './settings.ts'

interface DeliveryOptions {
  readonly settings: Settings
  readonly payments: Payments
  readonly log: Log
  readonly metrics: Metrics
}

/** Creates the background tasks that send mail, deliver webhooks and pay out merchants. */
export function createDelivery({ settings, payments, log, metrics }: DeliveryOptions) {
  const { storage, clock, webhookPolicy: policy = strictPolicy } = payments
  const common = { storage, clock, random: Math.random, log }
  const countMail = metrics.counter('payments_mails_total', 'Tries to send mail by outcome.')
  // Starts each counter at zero, so that Prometheus sees the first count as an increase.
  for (const outcome of ['sent', 'postponed', 'given-up']) countMail({ outcome }, 0)
  const countWebhook = metrics.counter('payments_webhook_tries_total', 'Tries to deliver events by outcome.')
  const webhooks = new WebhookDeliverer({
    ...common,
    policy,
    resolve: resolveBySystem,
    onOutcome: outcome => countWebhook({ outcome }),
  })
  let transport: MailTransport | undefined
  return {
    /** The background tasks, by name in the log. */
    tasks: {
      'send mail': async () => {
        transport ??= await openMailTransport(settings)
        const onOutcome = (outcome: string) => countMail({ outcome })
        return sendDueMails({ ...common, transport, from: settings.mailFrom, onOutcome })
      },
      'deliver webhooks': () => webhooks.deliverDue(),
      'pay out merchants': createPayoutTask(settings, payments, log),
    },
    /** Resolves when all running deliveries of webhooks have ended. */
    drain: () => webhooks.drain(),
  }
}

/**
 * Returns the transport of mail: the SMTP server, or a folder if none is configured. Loads the SMTP module
 * only if it is used.
 */
async function openMailTransport({ mailSmtpUrl, stateDir }: Settings): Promise<MailTransport> {
  if (mailSmtpUrl === null) return createFolderTransport(join(stateDir, 'mail'))
  const { createSmtpTransport } = await import('./mail/smtp-transport.ts')
  return createSmtpTransport(mailSmtpUrl)
}

/**
 * Returns a task that pays out all merchants once a day, after the configured time. Each process runs it;
 * those that come later find nothing to pay.
 */
function createPayoutTask({ payoutTime }: Settings, payments: Payments, log: Log): Task {
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
