import type { JsonObject } from '@tollway/chassis/json.ts'

export interface MailText {
  /** The subject, a single line. */
  readonly subject: string
  /** Plain text. Each line ends with a line feed. */
  readonly body: string
}

type MailLanguage = 'en' | 'da'

const texts: Readonly<Record<MailLanguage, (merchant: string) => MailText>> = {
  en: merchant => ({
    subject: 'Invitation to a merchant account',
    body: `Hello,

a merchant account has added this e-mail address as a member. A member has
access to the account’s payments, its settings and its other members.

Name that the account gives itself: ${merchant}

There is nothing that you have to do. If you do not know this account, ignore
this mail. The account can end your membership at any time.
`,
  }),
  da: merchant => ({
    subject: 'Invitation til en forretningskonto',
    body: `Hej,

en forretningskonto har tilføjet denne e-mailadresse som medlem. Et medlem har
adgang til kontoens betalinger, indstillinger og andre medlemmer.

Navn, som kontoen selv har angivet: ${merchant}

Du behøver ikke at gøre noget. Hvis du ikke kender kontoen, kan du se bort fra
denne mail. Kontoen kan til enhver tid ophæve dit medlemskab.
`,
  }),
}

/**
 * Returns the text of an invitation. Anybody can create a merchant and invite anybody, so the subject
 * contains nothing of the merchant, and `plainName` reduces the merchant's name so that it cannot contain a
 * link. The text is Danish for merchants in Denmark, Greenland and the Faroes, else English.
 */
export function invitation(content: JsonObject): MailText {
  return texts[chooseLanguage(content['country'])](plainName(content['merchantName']) || '–')
}

const danish: readonly unknown[] = ['DK', 'GL', 'FO']

function chooseLanguage(country: unknown): MailLanguage {
  return danish.includes(country) ? 'da' : 'en'
}

const maxNameCharacters = 40
/** The most digits in a row; longer runs are removed, because they may be telephone numbers. */
const maxDigits = 4

/**
 * Reduces a name to letters, short numbers, spaces and `&`, `'`, `’` and `-`, in one line. Without dots and
 * slashes it cannot be a link.
 */
function plainName(value: unknown): string {
  if (typeof value !== 'string') return ''
  const words = value.toWellFormed().replace(/[^\p{L}\p{M}\p{N}&'’-]+/gu, ' ')
  const short = words.replace(/\p{N}(?:[ '’-]*\p{N})*/gu, digits =>
    digits.length > maxDigits ? ' ' : digits,
  )
  return [...short.replace(/ +/g, ' ').trim()].slice(0, maxNameCharacters).join('').trim()
}
