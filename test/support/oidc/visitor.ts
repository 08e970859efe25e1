/** What a browser does at a provider, without one: follows redirects, keeps cookies, sends its forms. */

/** Signs in as `name` at the address that a gateway gave; returns the query that it is led back with. */
export async function signInAt(url: string, name: string): Promise<string> {
  const cookies = new Map<string, string>()
  const ask = async (to: string, init: RequestInit = {}) => {
    const cookie = [...cookies].map((each) => each.join('=')).join('; ')
    const response = await fetch(to, { ...init, redirect: 'manual', headers: { cookie } })
    for (const each of response.headers.getSetCookie()) {
      const [, key = '', value = ''] = /^([^=]+)=([^;]*)/.exec(each) ?? []
      cookies.set(key, value)
    }
    return response
  }
  let response = await ask(url)
  for (;;) {
    const next = response.headers.get('location')
    if (next === null) {
      const text = await response.text()
      const form = /<form[^>]* action="([^"]+)"/.exec(text)?.[1]
      if (form === undefined) throw new Error(`no form at ${response.url}: ${response.status}`)
      const prompt = text.includes('value="consent"') ? 'consent' : 'login'
      const body = new URLSearchParams({ prompt, login: name, password: 'x' })
      response = await ask(new URL(form, response.url).href, { method: 'POST', body })
    } else {
      const to = new URL(next, response.url)
      if (to.pathname.endsWith('/console/')) return to.search
      response = await ask(to.href)
    }
  }
}
