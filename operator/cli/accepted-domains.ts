import type { RateLimitDomain } from '../ir.ts'
import { translateRateLimitConfig } from '../translate/translate-rate-limit-config.ts'
import type { Output } from './command.ts'
import { readFolder } from './read-folder.ts'

/** The domains of a folder that are right; the others are told, and left out as the operator would leave them out. */
export async function acceptedDomains(folder: string, output: Output): Promise<readonly RateLimitDomain[]> {
  const { resources, problems } = await readFolder(folder)
  for (const { origin, message } of problems) output.printError(`${origin}: ${message}\n`)
  const domains: RateLimitDomain[] = []
  for (const { apiVersion, kind, namespace, name, spec, origin } of resources) {
    if (kind !== 'RateLimitConfig') continue
    const resource = { apiVersion, kind, metadata: { name, namespace }, spec }
    const made = translateRateLimitConfig(`${namespace}/${name}`, resource)
    if ('value' in made) domains.push(made.value)
    else for (const { path, message } of made.problems) output.printError(`${origin}: ${path}: ${message}\n`)
  }
  return domains.toSorted((a, b) => (a.name < b.name ? -1 : 1))
}
