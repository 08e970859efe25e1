/** The site's looks: VitePress's own, with room for tables and pictures of text. */
import DefaultTheme from 'vitepress/theme'
import './style.css'

export default DefaultTheme
