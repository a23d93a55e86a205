import MailComposer from 'nodemailer/lib/mail-composer'
import type { JsonObject } from '../domain/json.ts'
import type { Mail } from '../storage/delivery/mails.ts'
import { invitation, type MailText } from './invitation.ts'
import { type ComposedMail, MailError } from './mail-transport.ts'
import { domainOf, isPlainAddress, type Mailbox } from './mailbox.ts'

/** The templates by the names in rows. */
const templates: Readonly<Record<string, (content: JsonObject) => MailText>> = { invitation }

/**
 * Returns the message of a row. Its Message-ID and date are the row's, so that each try sends the same mail
 * and receivers can drop a duplicate (RFC 5322, section 3.6.4).
 *
 * @throws MailError, permanent, for a row from which no mail can be composed
 */
export async function composeMail(mail: Mail, from: Mailbox): Promise<ComposedMail> {
  const { id, createdMs, template, recipient, content } = mail
  if (!isPlainAddress(recipient)) throw new MailError('the recipient is not a plain address', true)
  const write = Object.hasOwn(templates, template) ? templates[template] : undefined
  if (write === undefined) throw new MailError(`there is no text named ${JSON.stringify(template)}`, true)
  const { subject, body } = write(content)
  const message = new MailComposer({
    from,
    to: { name: '', address: recipient },
    subject,
    text: body,
    date: new Date(createdMs),
    messageId: `<${id}@${domainOf(from)}>`,
    // Prevents out-of-office replies (RFC 3834, section 5).
    headers: { 'Auto-Submitted': 'auto-generated' },
    newline: 'windows',
    disableFileAccess: true,
    disableUrlAccess: true,
  })
  const bytes = await message.compile().build()
  return { id, createdMs, from: from.address, to: recipient, bytes }
}
