import type { Page } from 'playwright-core'
import { manifestAnswerExample } from '../../operator/api/examples.ts'
import { playAnswers } from './played-answers.ts'

/** A text that harms a page which inserts it as markup, or shows it as it is. */
export const hostileText = '<script>document.title=1</script><img src=x onerror=alert(1)>\u202Egnp.exe\u0000'

const longCharacters = 1_000_000

/** Answers each call of the API with its example, in which every text is hostile, and some have 1 MB. */
export const answerWithHostileTexts = (page: Page) =>
  playAnswers(page, ({ id, example }) => ({ data: id === 'rights' ? example : hostile(example) }))

/** Keys of these fields are texts of users too. */
const records = new Set(['details', 'counts', 'records'])

/** Fields of each page. The first text of each of them in an answer is long. */
const longFields = ['name', 'rule', 'streamId', 'value', 'domain']

function hostile(example: unknown): unknown {
  const stillShort = new Set(longFields)
  const replace = (value: unknown, field: string): unknown => {
    if (typeof value === 'string') return textFor(field)
    if (Array.isArray(value)) return value.map(item => replace(item, field))
    if (typeof value !== 'object' || value === null) return value
    const named = (name: string) => (records.has(field) ? `${hostileText}${name}` : name)
    return Object.fromEntries(Object.entries(value).map(([name, each]) => [named(name), replace(each, name)]))
  }
  const textFor = (field: string) => {
    // The editor needs YAML, and an amount has digits only.
    if (field === 'manifest') return `# \u202E<script>\n${manifestAnswerExample.manifest}`
    if (field === 'amount') return '5'
    return stillShort.delete(field) ? `${hostileText}${'x'.repeat(longCharacters)}` : hostileText
  }
  return replace(example, '')
}
