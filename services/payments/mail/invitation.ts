import type { JsonObject } from '../domain/json.ts'

/** What a mail says, before it is a message. */
export interface MailText {
  /** One line. */
  readonly subject: string
  /** Plain text, its lines ended by a line feed. */
  readonly body: string
}

export const mailLanguages = ['en', 'da'] as const
export type MailLanguage = (typeof mailLanguages)[number]

/** What the invitation tells of the merchant. */
interface Inviting {
  readonly name: string
  readonly website: string
}

const texts: Readonly<Record<MailLanguage, (merchant: Inviting) => MailText>> = {
  en: ({ name, website }) => ({
    subject: `You are invited to ${name}`,
    body: `Hello,

you are now a member of the merchant ${name} (${website}), and have complete
access to it: its payments, its settings and its other members.

There is nothing that you have to do. If you do not know ${name}, you can
ignore this mail; the merchant can end your membership at any time.
`,
  }),
  da: ({ name, website }) => ({
    subject: `Du er inviteret til ${name}`,
    body: `Hej,

du er nu medlem af forretningen ${name} (${website}) og har fuld adgang til
den: dens betalinger, dens indstillinger og dens andre medlemmer.

Du behøver ikke at gøre noget. Hvis du ikke kender ${name}, kan du se bort
fra denne mail; forretningen kan til enhver tid ophæve dit medlemskab.
`,
  }),
}

/**
 * The invitation, from what was stored with it. A merchant without a name is called by its website. Its country
 * decides the language: Danish in Denmark, Greenland and the Faroes, English elsewhere.
 */
export function invitation(content: JsonObject): MailText {
  const website = plain(content['website'])
  const name = plain(content['merchantName']) || website
  return texts[languageOf(content['country'])]({ name, website })
}

const danish: readonly unknown[] = ['DK', 'GL', 'FO']

function languageOf(country: unknown): MailLanguage {
  return danish.includes(country) ? 'da' : 'en'
}

const maxShownCharacters = 200

/**
 * One line without control characters, whatever was stored: neither a header nor a new paragraph can begin
 * here.
 */
function plain(value: unknown): string {
  if (typeof value !== 'string') return ''
  const line = value.toWellFormed().replace(/[\p{Cc}\p{Cf}\u2028\u2029]+/gu, ' ')
  return line.trim().slice(0, maxShownCharacters)
}
