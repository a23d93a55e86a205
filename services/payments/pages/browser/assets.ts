import { createHash } from 'node:crypto'
import { browserScript } from './browser-script.ts'
import { icon, styles } from './styles.ts'

/**
 * A file that the pages load. The path contains a hash of the content, so that browsers can cache the file
 * for ever.
 */
export interface Asset {
  /** The path below the folder of the pages. */
  readonly path: string
  readonly type: string
  readonly content: string
  /** The hash of the content, with which browsers reject a changed file (Subresource Integrity). */
  readonly integrity: string
  /** Why the pages load the file, for the inventory that PCI DSS requires. */
  readonly purpose: string
}

export function hashForIntegrity(content: string): string {
  return `sha384-${createHash('sha384').update(content).digest('base64')}`
}

interface Source extends Pick<Asset, 'type' | 'content' | 'purpose'> {
  readonly name: string
  readonly ending: string
}

function asset({ name, ending, type, content, purpose }: Source): Asset {
  const hash = createHash('sha256').update(content).digest('hex').slice(0, 12)
  return {
    path: `assets/${name}-${hash}.${ending}`,
    type,
    content,
    integrity: hashForIntegrity(content),
    purpose,
  }
}

/** All files that the pages load. */
export const assets = {
  style: asset({
    name: 'pay',
    ending: 'css',
    type: 'text/css; charset=utf-8',
    content: styles,
    purpose: 'Layout and colours.',
  }),
  script: asset({
    name: 'pay',
    ending: 'js',
    type: 'text/javascript; charset=utf-8',
    content: browserScript,
    purpose:
      'Groups the digits of the card form, checks its fields before it is sent, keeps it from being sent twice, ' +
      'and opens the shop after a payment. It sends and stores no data.',
  }),
  icon: asset({
    name: 'icon',
    ending: 'svg',
    type: 'image/svg+xml',
    content: icon,
    purpose: 'The icon of the browser tab.',
  }),
} as const satisfies Readonly<Record<string, Asset>>

/**
 * The headers of every page and file. With them, a page loads only scripts, styles and images of the service,
 * sends forms only to the service, cannot be framed by another site, is not cached, and sends no referrer.
 */
export const pageHeaders = {
  'content-security-policy': [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    "form-action 'self'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join('; '),
  'cache-control': 'no-store',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'x-robots-tag': 'noindex',
} as const
