import { type Locale, locales } from '../../domain/input/request-bodies.ts'
import { assets } from '../browser/assets.ts'
import { textsFor } from '../texts/texts.ts'
import { html, type Markup, renderHtml } from './html.ts'

interface Layout {
  readonly locale: Locale
  /** The title of the page in the browser, to which the name of `shop` is appended. */
  readonly title: string
  readonly shop?: string
  readonly isTest?: boolean
  /** Returns the address of the page in a language. Missing for answers to a form, which have no address. */
  readonly languageLink?: (locale: Locale) => string
  /** The relative path from this page to the folder of the pages; by default `./`. */
  readonly base?: string
  readonly main: Markup
}

export function layOut({ locale, title, shop, isTest = false, base = './', ...rest }: Layout): string {
  const texts = textsFor(locale)
  const document = html`<!doctype html>
<html lang="${locale}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex">
<meta name="format-detection" content="telephone=no">
<title>${title}${shop !== undefined && ` – ${shop}`}</title>
<link rel="icon" type="image/svg+xml" href="${base}${assets.icon.path}">
<link rel="stylesheet" href="${base}${assets.style.path}" integrity="${assets.style.integrity}">
<script defer src="${base}${assets.script.path}" integrity="${assets.script.integrity}"></script>
</head>
<body>
<header>
${isTest && html`<p class="test-mode"><strong>${texts.testMode}</strong> ${texts.testModeNote}</p>`}
</header>
<main>
${rest.main}
</main>
<footer>
${rest.languageLink !== undefined && languages(locale, rest.languageLink)}
</footer>
</body>
</html>
`
  return renderHtml(document)
}

function languages(current: Locale, link: (locale: Locale) => string): Markup {
  const items = locales.map(locale => {
    const name = textsFor(locale).language
    if (locale === current) return html`<li><span aria-current="true">${name}</span></li>`
    return html`<li><a href="${link(locale)}" lang="${locale}" hreflang="${locale}">${name}</a></li>`
  })
  return html`<nav aria-label="${textsFor(current).chooseLanguage}"><ul>${items}</ul></nav>`
}
