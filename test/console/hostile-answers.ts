import type { Page, Route } from 'playwright-core'
import { type Endpoint, endpoints } from '../../operator/api/endpoints.ts'
import { manifestAnswer } from '../../operator/api/examples.ts'
import { apiPath } from '../../operator/api/openapi-document.ts'

/** A text that harms a page which inserts it as markup, or shows it as it is. */
export const hostileText = '<script>document.title=1</script><img src=x onerror=alert(1)>\u202Egnp.exe\u0000'

const longCharacters = 1_000_000

/** Answers each call of the API with its example, in which every text is hostile, and some have 1 MB. */
export async function answerWithHostileTexts(page: Page): Promise<void> {
  await page.route(`**${apiPath}/**`, answer)
}

async function answer(route: Route): Promise<void> {
  const { pathname } = new URL(route.request().url())
  const found = (endpoints as readonly Endpoint[]).find(({ path, method }) => {
    const pattern = new RegExp(`^${apiPath}${path.replaceAll(/\{\w+\}/g, '[^/]+')}$`)
    return method === route.request().method() && pattern.test(pathname)
  })
  if (found === undefined) return route.abort()
  const data = JSON.stringify(found.id === 'rights' ? found.example : hostile(found.example))
  if (found.events === undefined) return route.fulfill({ contentType: 'application/json', body: data })
  const [name = ''] = Object.keys(found.events)
  return route.fulfill({ contentType: 'text/event-stream', body: `event: ${name}\ndata: ${data}\n\n` })
}

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
    if (field === 'manifest') return `# \u202E<script>\n${manifestAnswer.manifest}`
    if (field === 'amount') return '5'
    return stillShort.delete(field) ? `${hostileText}${'x'.repeat(longCharacters)}` : hostileText
  }
  return replace(example, '')
}
