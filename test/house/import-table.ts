import type { ImportRule } from './import-rule.ts'
import { importRules } from './import-rules.ts'

/** Returns the rows of the table of folders, in Markdown. */
export function importTable(): string {
  const rows = importRules.map(({ place, content, mayImport }) => {
    const allowed = mayImport.map(path => `\`${path}\``).join(', ')
    return `| \`${place}\` | ${content} | ${allowed || 'nothing'} |`
  })
  return ['| Path | Content | May import |', '| --- | --- | --- |', ...rows].join('\n')
}

/** Returns the rule for a file; undefined if no rule names its folder. */
export function importRuleFor(path: string): ImportRule | undefined {
  return importRules
    .filter(({ place }) => path.startsWith(place))
    .sort((a, b) => b.place.length - a.place.length)[0]
}
