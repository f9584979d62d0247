// The theme gives no name to the dialog of the search, and one without the version to the selector of versions,
// which it adds when it has read their list.
document.querySelector(".md-search").ariaLabel = "Search";
const nameSelector = () => {
  const selector = document.querySelector(".md-version__current");
  if (selector) selector.ariaLabel = `Version ${selector.textContent}`;
};
new MutationObserver(nameSelector).observe(document.querySelector(".md-header__topic"), { childList: true });
nameSelector();

// What is too wide for the page can be scrolled with the keyboard, too.
document$.subscribe(() => {
  for (const box of document.querySelectorAll(".md-typeset__scrollwrap, .formula")) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
  }
});
