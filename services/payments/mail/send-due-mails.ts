import type { Clock } from '@tollway/chassis/clock.ts'
import type { JsonObject } from '@tollway/chassis/json.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import { quote } from '@tollway/chassis/text.ts'
import MailComposer from 'nodemailer/lib/mail-composer'
import {
  claimDueMails,
  giveUpMail,
  type Mail,
  markMailSent,
  postponeMail,
} from '../storage/delivery/mails.ts'
import type { Storage } from '../storage/storage.ts'
import { invitation, type MailText } from './invitation.ts'
import {
  type ComposedMail,
  isPlainAddress,
  type Mailbox,
  MailError,
  type MailTransport,
  parseDomain,
  sendDeadlineMs,
} from './mail-transport.ts'

interface Mailing {
  readonly storage: Storage
  readonly clock: Clock
  /** Returns a random number in [0, 1), which spreads the attempts. */
  readonly random: () => number
  readonly transport: MailTransport
  readonly from: Mailbox
  readonly log: Log
  readonly onOutcome?: (outcome: MailOutcome) => void
}

export const mailOutcomes = ['sent', 'postponed', 'given-up'] as const
type MailOutcome = (typeof mailOutcomes)[number]

const maxMailsAtOnce = 8
/** How long a claimed mail is reserved for this process: longer than an attempt takes. */
const mailLeaseMs = 2 * sendDeadlineMs

const firstWaitMs = 15_000
const maxWaitMs = 60 * 60 * 1000
/** A mail is given up only after this many rejections, because a server can be misconfigured for a time. */
const maxRejections = 3
/** A mail of this age is given up after its next failed attempt (RFC 5321, section 4.5.4.1). */
const maxAgeMs = 5 * 24 * 60 * 60 * 1000

/**
 * Sends due mails, at most `maxMailsAtOnce`. Marks a mail as sent after the server has accepted it. If the
 * process ends in between, the mail is sent again after `mailLeaseMs`, with the same Message-ID. Several
 * processes can send mails at the same time.
 *
 * @returns whether more mails may be due now
 */
export async function sendDueMails(mailing: Mailing): Promise<boolean> {
  const { storage, clock } = mailing
  const nowMs = clock.nowMs()
  const mails = await storage.transaction(tx => claimDueMails(tx, nowMs, nowMs + mailLeaseMs, maxMailsAtOnce))
  const sends = await Promise.allSettled(mails.map(mail => sendOne(mailing, mail)))
  const failed = sends.find(send => send.status === 'rejected')
  if (failed !== undefined) throw failed.reason
  return mails.length === maxMailsAtOnce
}

/** @throws StorageError if the outcome cannot be stored; the mail is then due again after `mailLeaseMs` */
async function sendOne(mailing: Mailing, mail: Mail): Promise<void> {
  const { storage, clock, onOutcome } = mailing
  const error = await trySending(mailing, mail)
  const nowMs = clock.nowMs()
  if (error === undefined) {
    await storage.transaction(tx => markMailSent(tx, mail.id, nowMs))
    onOutcome?.('sent')
    return
  }
  const { id, attempts, createdMs } = mail
  const fields = { mail: id, template: mail.template, attempts, reason: error.message }
  const isLast = nowMs - createdMs >= maxAgeMs || (error.permanent && attempts >= maxRejections)
  if (isLast) {
    mailing.log.error('send mail failed', { ...fields, retryAt: null })
    await storage.transaction(tx => giveUpMail(tx, id, nowMs))
  } else {
    const dueMs = nowMs + mailWaitMs(attempts, mailing.random)
    mailing.log.warn('send mail failed', { ...fields, retryAt: new Date(dueMs) })
    await storage.transaction(tx => postponeMail(tx, id, dueMs))
  }
  onOutcome?.(isLast ? 'given-up' : 'postponed')
}

async function trySending({ transport, from }: Mailing, mail: Mail): Promise<MailError | undefined> {
  try {
    await transport.send(await composeMail(mail, from))
    return undefined
  } catch (error) {
    return error instanceof MailError ? error : new MailError((error as Error).message, false)
  }
}

/**
 * Returns the wait after a failed attempt: 15 seconds at first, doubled after each attempt up to an hour, and
 * reduced at random by up to half.
 */
export function mailWaitMs(attempts: number, random: () => number): number {
  const waitMs = Math.min(maxWaitMs, firstWaitMs * 2 ** Math.min(attempts - 1, 30))
  return Math.round(waitMs * (1 - random() / 2))
}

const templates: Readonly<Record<string, (content: JsonObject) => MailText>> = { invitation }

/**
 * Composes a stored mail. The Message-ID and the date come from the stored mail, so that each attempt sends
 * the same mail and receivers can drop a duplicate (RFC 5322, section 3.6.4).
 *
 * @throws MailError whose `permanent` is true, if the stored mail has an unknown template or an invalid recipient
 */
export async function composeMail(mail: Mail, from: Mailbox): Promise<ComposedMail> {
  const { id, createdMs, template, recipient, content } = mail
  if (!isPlainAddress(recipient)) throw new MailError('the recipient is not a plain address', true)
  const write = Object.hasOwn(templates, template) ? templates[template] : undefined
  if (write === undefined) throw new MailError(`unknown template ${quote(template)}`, true)
  const { subject, body } = write(content)
  const message = new MailComposer({
    from,
    to: { name: '', address: recipient },
    subject,
    text: body,
    date: new Date(createdMs),
    messageId: `<${id}@${parseDomain(from)}>`,
    // Prevents out-of-office replies (RFC 3834, section 5).
    headers: { 'Auto-Submitted': 'auto-generated' },
    newline: 'windows',
    disableFileAccess: true,
    disableUrlAccess: true,
  })
  const bytes = await message.compile().build()
  return { id, createdMs, from: from.address, to: recipient, bytes }
}
