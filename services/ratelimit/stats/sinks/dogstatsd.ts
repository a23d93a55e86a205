import { type Mogrifier, mogrify } from '../mapping/mogrifiers.ts'
import { splitOwnTags } from './own-tags.ts'
import { type Dialect, lineName, tagsOf, tagText } from './statsd-lines.ts'

/**
 * Writes tags for the agent: `name:value|type|#tag:value,tag:value`, first the extra ones, then the
 * statistic's, then those of the mogrifiers.
 */
export function dogstatsdDialect(
  extraTags: ReadonlyMap<string, string>,
  mogrifiers: readonly Mogrifier[],
): Dialect {
  const extra = tagsOf(extraTags).map(([name, value]) => `${name}:${value}`)
  return statName => {
    const own = splitOwnTags(statName)
    const { name, tags } = mogrify(mogrifiers, own.name)
    const all = [
      ...extra,
      ...[...own.tags, ...tags].map(([tag, value]) => `${tagText(tag)}:${tagText(value)}`),
    ]
    return { head: lineName(name), tail: all.length === 0 ? '' : `|#${all.join(',')}` }
  }
}
